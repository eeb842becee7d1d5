package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Equal tells whether two normalised statuses say the same, as far as the node
// agent is concerned: the conditions that it sets by status, reason and message,
// and everything else that it decides. What others own does not count: their
// conditions, the statuses of resource claims, the nominated node. Neither does
// the moment of a condition's transition.
func Equal(a, b *v1.PodStatus) bool {
	if !subset(a.Conditions, b.Conditions) || !subset(b.Conditions, a.Conditions) {
		return false
	}
	x, y := ownPart(a), ownPart(b)
	return equality.Semantic.DeepEqual(&x, &y)
}

// subset tells whether every condition in which the node agent has a say is among
// the others, with the same content.
func subset(list, others []v1.PodCondition) bool {
	for i := range list {
		c := &list[i]
		if !owned(c.Type) && !shared(c.Type) {
			continue
		}
		other := condition(others, c.Type)
		if other == nil || other.Status != c.Status || other.Reason != c.Reason || other.Message != c.Message {
			return false
		}
	}
	return true
}

// ownPart is a status without conditions and without what others own.
func ownPart(s *v1.PodStatus) v1.PodStatus {
	part := *s
	part.Conditions = nil
	part.NominatedNodeName = ""
	part.ResourceClaimStatuses, part.ExtendedResourceClaimStatus, part.NodeAllocatableResourceClaimStatuses = nil, nil, nil
	return part
}

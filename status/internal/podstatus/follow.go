package podstatus

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// Follow returns s with the lasting values of the previous status: the start time, the observed
// generation, and the transition times of conditions with an unchanged status. Missing times
// default to now. s is not changed.
func Follow(before, s v1.PodStatus, now time.Time) v1.PodStatus {
	switch {
	case before.StartTime != nil:
		s.StartTime = before.StartTime
	case s.StartTime == nil:
		s.StartTime = &metav1.Time{Time: now}
	}
	s.ObservedGeneration = max(s.ObservedGeneration, before.ObservedGeneration)
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress || !Owned(c.Type) && !Shared(c.Type) {
			continue // a resize condition follows its reason; others are not ours
		}
		switch old := podfacts.Condition(before.Conditions, c.Type); {
		case old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero():
			c.LastTransitionTime = old.LastTransitionTime
		case c.LastTransitionTime.IsZero(), old != nil && !c.LastTransitionTime.After(old.LastTransitionTime.Time):
			c.LastTransitionTime = metav1.NewTime(now)
		}
	}
	return s
}

// Own returns the part of a status that the node agent decides, alone or with others: without the
// conditions of other components, the statuses of resource claims and the nominated node. It
// shares memory with s.
func Own(s *v1.PodStatus) v1.PodStatus {
	own := *s
	own.NominatedNodeName = ""
	own.ResourceClaimStatuses, own.ExtendedResourceClaimStatus, own.NodeAllocatableResourceClaimStatuses = nil, nil, nil
	own.Conditions = make([]v1.PodCondition, 0, min(len(s.Conditions), 9))
	for _, c := range s.Conditions {
		if Owned(c.Type) || Shared(c.Type) {
			own.Conditions = append(own.Conditions, c)
		}
	}
	return own
}

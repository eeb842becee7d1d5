package node

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Setter sets a part of a status. It must change nothing of the facts, keep what is not
// its part, share no memory between the two, and give the same when it is called again.
type Setter func(status *v1.NodeStatus, facts *Facts)

// Setters returns the setters of a node agent, in the order in which they are called.
func Setters() []Setter {
	return []Setter{
		SetAddresses,
		SetMachine,
		SetPlugins,
		SetAllocatable,
		SetVersions,
		SetEndpoints,
		SetImages,
		SetHandlers,
		SetFeatures,
		SetPressure,
		SetReady,
		SetVolumesInUse,
	}
}

// Compute returns the status that follows from the one before and from the facts. old
// may be nil, and is not changed. Without setters it is those of Setters.
func Compute(old *v1.NodeStatus, facts Facts, setters ...Setter) *v1.NodeStatus {
	status := &v1.NodeStatus{}
	if old != nil {
		status = old.DeepCopy()
	}
	if len(setters) == 0 {
		setters = Setters()
	}
	for _, set := range setters {
		set(status, &facts)
	}
	return status
}

// Changed tells whether two statuses differ in more than heartbeats. The order of
// conditions does not count, nor does an empty list being nil or not.
func Changed(a, b *v1.NodeStatus) bool {
	return !equality.Semantic.DeepEqual(essence(a), essence(b))
}

func essence(status *v1.NodeStatus) *v1.NodeStatus {
	if status == nil {
		return &v1.NodeStatus{}
	}
	c := *status
	c.Conditions = slices.Clone(status.Conditions)
	for i := range c.Conditions {
		c.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	slices.SortStableFunc(c.Conditions, byType)
	return &c
}

package node

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Setter sets a part of a status. It must not change the facts or other parts of the status, must
// share no memory between them, and must be idempotent.
type Setter func(status *v1.NodeStatus, facts *Facts)

// Setters returns the setters of a node agent, in the order of their calls.
func Setters() []Setter {
	return []Setter{
		setAddresses,
		SetMachine,
		setPlugins,
		SetAllocatable,
		setVersions,
		setEndpoints,
		setImages,
		setHandlers,
		setFeatures,
		setPressure,
		setReady,
		setVolumesInUse,
	}
}

// Compute returns the status that follows from the previous one and the facts. old may be nil and
// is not changed. Default for setters: Setters().
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

// Changed reports whether two statuses differ in more than heartbeats. It ignores the order of
// conditions and the difference between nil and empty lists.
func Changed(a, b *v1.NodeStatus) bool {
	return !equality.Semantic.DeepEqual(withoutHeartbeats(a), withoutHeartbeats(b))
}

func withoutHeartbeats(status *v1.NodeStatus) *v1.NodeStatus {
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

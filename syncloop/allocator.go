package syncloop

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// Allocator says what pods have been granted of the resources that they ask for, which
// may change while they run (KEP-1287). Package allocation has one.
type Allocator interface {
	// Allocated returns the pod with what it was granted, the same object if that is what
	// it asks for or if it was granted nothing yet. It answers from memory, may be called
	// by anybody, and again about what it has returned.
	Allocated(pod *v1.Pod) *v1.Pod
	// Retry decides anew about what pods ask for. It is called by the Loop's goroutine
	// with the active pods: as they should be, and those that are on their way out as
	// they were granted. It returns the pods whose workers are to look at them again.
	Retry(trigger string, active []*v1.Pod) []types.UID
}

// What an Allocator is called for.
const (
	RetryPodsAdded     = "pods_added"
	RetryPodUpdated    = "pod_updated"
	RetryPodsRemoved   = "pods_removed"
	RetryPodTerminated = "pod_terminated"
	RetryPeriodic      = "periodic_retry"
)

// asDesired is the Allocator that grants everything.
type asDesired struct{}

func (asDesired) Allocated(pod *v1.Pod) *v1.Pod       { return pod }
func (asDesired) Retry(string, []*v1.Pod) []types.UID { return nil }

// allocate has the Allocator decide, and tells the workers of pods that are not in told,
// which hear of it anyhow.
func (h *DefaultHandler) allocate(trigger string, told []*v1.Pod) {
	if _, none := h.cfg.Allocator.(asDesired); none {
		return
	}
	active := h.activeExcept(nil)
	for i, pod := range active {
		desired := h.desired.Get(pod.UID)
		if desired != nil && !h.ended(desired) && !h.cfg.Workers.State(pod.UID).TerminationRequested() {
			active[i] = desired
		}
	}
	if h.count(active) && trigger == RetryPeriodic {
		trigger = RetryPodTerminated
	}
	for _, uid := range h.cfg.Allocator.Retry(trigger, active) {
		if slices.ContainsFunc(told, func(pod *v1.Pod) bool { return pod.UID == uid }) {
			continue
		}
		if pod := h.desired.Get(uid); pod != nil && !h.outside(uid) {
			h.update(podworkers.Update{Type: podworkers.UpdateUpdate, Pod: pod})
		}
	}
}

// count notes which pods count for the Allocator, and tells whether one does no more.
func (h *DefaultHandler) count(active []*v1.Pod) (fewer bool) {
	before := h.counted
	h.counted = make(map[types.UID]bool, len(active))
	for _, pod := range active {
		h.counted[pod.UID] = true
		delete(before, pod.UID)
	}
	return len(before) > 0
}

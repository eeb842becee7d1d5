package syncloop

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// Allocator allocates resources to pods. The allocation may change while a pod runs (KEP-1287).
// Package allocation has an implementation.
type Allocator interface {
	// Allocated returns the pod with its allocated resources. It returns the same object if the
	// allocation equals the requests or the pod has no allocation. It must not block, is safe for
	// concurrent use, and accepts its own results.
	Allocated(pod *v1.Pod) *v1.Pod
	// Retry decides again about the requests of pods. The Loop's goroutine calls it with the
	// active pods: the desired version, or for terminating pods the allocated one. It returns the
	// pods that need a sync.
	Retry(trigger string, active []*v1.Pod) []types.UID
}

// The triggers of Allocator.Retry.
const (
	RetryPodsAdded     = "pods_added"
	RetryPodUpdated    = "pod_updated"
	RetryPodsRemoved   = "pods_removed"
	RetryPodTerminated = "pod_terminated"
	RetryPeriodic      = "periodic_retry"
)

// allocateRequests is the Allocator that allocates all requests.
type allocateRequests struct{}

func (allocateRequests) Allocated(pod *v1.Pod) *v1.Pod       { return pod }
func (allocateRequests) Retry(string, []*v1.Pod) []types.UID { return nil }

// allocate calls the Allocator and updates the workers of the pods that it returns. The caller
// updates the pods in updated itself.
func (h *DefaultHandler) allocate(trigger string, updated []*v1.Pod) {
	if _, none := h.cfg.Allocator.(allocateRequests); none {
		return
	}
	active := h.activeExcept(nil)
	for i, pod := range active {
		desired := h.desired.Get(pod.UID)
		if desired != nil && !h.ended(desired) && !h.cfg.Workers.State(pod.UID).TerminationRequested() {
			active[i] = desired
		}
	}
	if h.recordActive(active) && trigger == RetryPeriodic {
		trigger = RetryPodTerminated
	}
	for _, uid := range h.cfg.Allocator.Retry(trigger, active) {
		if slices.ContainsFunc(updated, func(pod *v1.Pod) bool { return pod.UID == uid }) {
			continue
		}
		if pod := h.desired.Get(uid); pod != nil && !h.isUnadmitted(uid) {
			h.update(podworkers.Update{Type: podworkers.UpdateUpdate, Pod: pod})
		}
	}
}

// recordActive records the active pods and reports whether a pod of the previous call is no longer
// active.
func (h *DefaultHandler) recordActive(active []*v1.Pod) (fewer bool) {
	before := h.lastActive
	h.lastActive = make(map[types.UID]bool, len(active))
	for _, pod := range active {
		h.lastActive[pod.UID] = true
		delete(before, pod.UID)
	}
	return len(before) > 0
}

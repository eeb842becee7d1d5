package syncloop

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/podworkers"
)

// admit decides whether a new pod goes to a worker as one that may start. Pods
// that are on their way out or have ended are let through: they start nothing. So
// are those that have a worker: they were admitted before.
func (h *DefaultHandler) admit(pod *v1.Pod) bool {
	if pod.DeletionTimestamp != nil || podfacts.IsTerminalPhase(h.cfg.Phase(pod)) || podfacts.IsTerminalPhase(pod.Status.Phase) ||
		h.cfg.Workers.State(pod.UID).State != podworkers.StateUnknown {
		return true
	}
	why := h.cfg.Admit(pod, h.activeExcept(pod.UID))
	if why == nil {
		return true
	}
	h.mu.Lock()
	h.rejected[pod.UID] = true
	h.mu.Unlock()
	h.cfg.Logger.Warn("pod was not admitted", append(podAttrs(pod), "reason", why.Reason, "message", why.Message)...)
	h.cfg.OnReject(pod, *why)
	return false
}

// ActivePods returns the pods that hold resources of the node or are about to: no
// rejected or ended ones, but with those that were deleted by force and still
// terminate.
func (h *DefaultHandler) ActivePods() []*v1.Pod { return h.activeExcept("") }

func (h *DefaultHandler) activeExcept(uid types.UID) []*v1.Pod {
	var active []*v1.Pod
	for _, pod := range h.desired.Pods() {
		if pod.UID != uid && h.isActive(pod) {
			active = append(active, pod)
		}
	}
	h.mu.Lock()
	leaving := make([]*v1.Pod, 0, len(h.leaving))
	for _, pod := range h.leaving {
		leaving = append(leaving, pod)
	}
	h.mu.Unlock()
	sortByCreation(leaving)
	for _, pod := range leaving {
		state := h.cfg.Workers.State(pod.UID)
		if pod.UID != uid && state.State != podworkers.StateUnknown && state.CouldHaveRunningContainers() {
			active = append(active, pod)
		}
	}
	return active
}

// isActive tells whether a desired pod counts for admission and for a restart.
func (h *DefaultHandler) isActive(pod *v1.Pod) bool {
	state := h.cfg.Workers.State(pod.UID)
	switch {
	case h.isRejected(pod.UID) || state.KnownTerminated():
		return false
	case podfacts.IsTerminalPhase(pod.Status.Phase) || podfacts.IsTerminalPhase(h.cfg.Phase(pod)):
		// It has ended, but while its containers stop it holds what it held.
		return state.TerminationRequested()
	}
	return true
}

func (h *DefaultHandler) isRejected(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rejected[uid]
}

// outside tells whether a pod was rejected and no worker knows it, so that none
// must hear of it.
func (h *DefaultHandler) outside(uid types.UID) bool {
	return h.isRejected(uid) && h.cfg.Workers.State(uid).State == podworkers.StateUnknown
}

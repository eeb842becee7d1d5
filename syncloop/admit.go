package syncloop

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/podworkers"
)

// Unadmitted is a desired pod that was not admitted.
type Unadmitted struct {
	Pod *v1.Pod
	// Rejected is true if the pod has failed. Otherwise it waits and is retried.
	Rejected bool
	// Err is the error of the Admitter.
	Err error
	// Since is the time of the first refusal.
	Since time.Time
}

type refusal struct {
	rejected bool
	err      error
	since    time.Time
}

// Unadmitted returns the desired pods that were not admitted and have no worker, in the order of
// their creation, with the reasons.
func (h *DefaultHandler) Unadmitted() []Unadmitted {
	var list []Unadmitted
	for _, pod := range h.desired.Pods() {
		if why, ok := h.refusalOf(pod.UID); ok && h.isUnadmitted(pod.UID) {
			list = append(list, Unadmitted{Pod: pod, Rejected: why.rejected, Err: why.err, Since: why.since})
		}
	}
	return list
}

// batch is the sequential admission of several pods. Pending pods are not active yet.
type batch struct {
	pending map[types.UID]bool
	active  []*v1.Pod
	loaded  bool
}

func (h *DefaultHandler) newBatch(pods []*v1.Pod) ([]*v1.Pod, *batch) {
	b := &batch{}
	if len(pods) > 1 {
		var err error
		pods, err = applyOrder(h.cfg.Order, pods)
		h.logOrderError(err)
	}
	if h.cfg.Admit != nil {
		b.pending = make(map[types.UID]bool, len(pods))
		for _, pod := range pods {
			b.pending[pod.UID] = true
		}
	}
	return pods, b
}

// logOrderError logs an error of the order when its text changes.
func (h *DefaultHandler) logOrderError(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != h.orderErr {
		h.cfg.Logger.Warn("cannot satisfy the admission order", "err", err, "stack", run.StackOf(err))
	}
	h.orderErr = text
}

// admit reports whether a worker may start a new pod. Pods that are being deleted or have ended
// pass, because they start no containers. Pods with a worker pass, because they were admitted
// before.
func (h *DefaultHandler) admit(pod *v1.Pod, b *batch) bool {
	if h.cfg.Admit == nil {
		return true
	}
	err := h.callAdmitter(pod, b)
	if !admitted(err) {
		err = h.refuse(pod, err)
	}
	delete(b.pending, pod.UID)
	if !admitted(err) {
		return false
	}
	h.locked(func() { delete(h.refused, pod.UID) })
	if b.loaded && h.isActive(pod) {
		b.active = append(b.active, h.cfg.Allocator.Allocated(pod))
	}
	return true
}

// callAdmitter returns the Admitter's result for a pod, or nil without a call if the pod needs no
// admission.
func (h *DefaultHandler) callAdmitter(pod *v1.Pod, b *batch) error {
	if pod.DeletionTimestamp != nil || h.ended(pod) || h.cfg.Workers.State(pod.UID).State != podworkers.StateUnknown {
		return nil
	}
	if !b.loaded {
		b.active, b.loaded = h.activeExcept(b.pending), true
	}
	return run.Guard(fmt.Sprintf("admitter %T", h.cfg.Admit), func() error {
		return h.cfg.Admit.Admit(pod, slices.Clip(b.active))
	})
}

// refuse records and logs a refusal and returns its error. If OnReject panics, the pod waits
// instead of being rejected.
func (h *DefaultHandler) refuse(pod *v1.Pod, err error) error {
	var rejection *Rejection
	rejected := errors.As(err, &rejection) && rejection != nil
	if rejected {
		if panicked := run.Guard("OnReject", func() error { h.cfg.OnReject(pod, *rejection); return nil }); panicked != nil {
			rejected, err = false, panicked
		}
	}
	before, refusedBefore := h.refusalOf(pod.UID)
	now := refusal{rejected: rejected, err: err, since: time.Now()}
	if refusedBefore && before.rejected == rejected {
		now.since = before.since
	}
	h.locked(func() { h.refused[pod.UID] = now })
	switch {
	case refusedBefore && before.err.Error() == err.Error() && before.rejected == rejected:
	case rejected:
		h.cfg.Logger.Warn("pod rejected", append(podAttrs(pod), "reason", rejection.Reason, "message", rejection.Message)...)
	default:
		h.cfg.Logger.Warn("pod waits for admission", append(podAttrs(pod), "err", err, "stack", run.StackOf(err))...)
	}
	return err
}

func (h *DefaultHandler) admitWaiting() {
	refused := 0
	h.locked(func() { refused = len(h.refused) })
	if refused == 0 {
		return
	}
	pods, b := h.newBatch(slices.DeleteFunc(h.desired.Pods(), func(pod *v1.Pod) bool { return !h.isWaiting(pod.UID) }))
	for _, pod := range pods {
		if h.admit(pod, b) {
			h.create(pod)
		}
	}
}

// ActivePods returns the pods that use resources of the node or are about to, with their allocated
// resources. It excludes rejected, waiting and ended pods, and includes terminating pods that were
// force-deleted.
func (h *DefaultHandler) ActivePods() []*v1.Pod { return h.activeExcept(nil) }

func (h *DefaultHandler) activeExcept(pending map[types.UID]bool) []*v1.Pod {
	var active []*v1.Pod
	for _, pod := range h.desired.Pods() {
		if !pending[pod.UID] && h.isActive(pod) {
			active = append(active, h.cfg.Allocator.Allocated(pod))
		}
	}
	leaving := h.leavingPods()
	slices.SortFunc(leaving, compareCreation)
	for _, pod := range leaving {
		state := h.cfg.Workers.State(pod.UID)
		if !pending[pod.UID] && state.State != podworkers.StateUnknown && state.CouldHaveRunningContainers() {
			active = append(active, h.cfg.Allocator.Allocated(pod))
		}
	}
	return active
}

func (h *DefaultHandler) isActive(pod *v1.Pod) bool {
	if _, refused := h.refusalOf(pod.UID); refused {
		return false
	}
	state := h.cfg.Workers.State(pod.UID)
	switch {
	case state.KnownTerminated():
		return false
	case h.ended(pod):
		// It keeps its resources while its containers stop.
		return state.TerminationRequested()
	}
	return true
}

func (h *DefaultHandler) ended(pod *v1.Pod) bool {
	return podfacts.IsTerminalPhase(pod.Status.Phase) || podfacts.IsTerminalPhase(h.cfg.Phase(pod))
}

func (h *DefaultHandler) refusalOf(uid types.UID) (refusal, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	why, ok := h.refused[uid]
	return why, ok
}

// isUnadmitted reports whether a pod was not admitted and has no worker, so that the workers must not
// receive it.
func (h *DefaultHandler) isUnadmitted(uid types.UID) bool {
	_, refused := h.refusalOf(uid)
	return refused && h.cfg.Workers.State(uid).State == podworkers.StateUnknown
}

// isWaiting reports whether a pod waits for another admission.
func (h *DefaultHandler) isWaiting(uid types.UID) bool {
	why, refused := h.refusalOf(uid)
	return refused && !why.rejected && h.cfg.Workers.State(uid).State == podworkers.StateUnknown
}

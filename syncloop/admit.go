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
	// Rejected tells that the pod has failed. Else it is held back, and asked
	// about again.
	Rejected bool
	// Err is what the Admitter said.
	Err error
	// Since is when it first said no.
	Since time.Time
}

// refusal is what is remembered of an Unadmitted pod.
type refusal struct {
	rejected bool
	err      error
	since    time.Time
}

// Unadmitted returns the desired pods that were not admitted and are no worker's
// business, in the order of their creation, with the reasons.
func (h *DefaultHandler) Unadmitted() []Unadmitted {
	var list []Unadmitted
	for _, pod := range h.desired.Pods() {
		if why, ok := h.refusalOf(pod.UID); ok && h.outside(pod.UID) {
			list = append(list, Unadmitted{Pod: pod, Rejected: why.rejected, Err: why.err, Since: why.since})
		}
	}
	return list
}

// batch is the admission of some pods, one after the other. Those that come later
// are not active yet.
type batch struct {
	pending map[types.UID]bool
	active  []*v1.Pod
	loaded  bool
}

// newBatch puts pods into the order of admission.
func (h *DefaultHandler) newBatch(pods []*v1.Pod) ([]*v1.Pod, *batch) {
	b := &batch{}
	if len(pods) > 1 {
		var err error
		pods, err = checked(h.cfg.Order, pods)
		h.tellOrder(err)
	}
	if h.cfg.Admit != nil {
		b.pending = make(map[types.UID]bool, len(pods))
		for _, pod := range pods {
			b.pending[pod.UID] = true
		}
	}
	return pods, b
}

// tellOrder reports what is wrong with an order, once.
func (h *DefaultHandler) tellOrder(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != h.orderErr {
		h.cfg.Logger.Warn("the order of admission cannot be kept", "err", err, "stack", run.StackOf(err))
	}
	h.orderErr = text
}

// admit decides whether a new pod goes to a worker as one that may start. Pods
// that are on their way out or have ended are let through: they start nothing. So
// are those that have a worker: they were admitted before.
func (h *DefaultHandler) admit(pod *v1.Pod, b *batch) bool {
	if h.cfg.Admit == nil {
		return true
	}
	err := h.ask(pod, b)
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

// ask returns what the Admitter says about a pod that has to be asked about.
func (h *DefaultHandler) ask(pod *v1.Pod, b *batch) error {
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

// refuse notes that a pod is not admitted, and why. A rejection that cannot be
// reported is none yet.
func (h *DefaultHandler) refuse(pod *v1.Pod, err error) error {
	var why *Rejection
	rejected := errors.As(err, &why) && why != nil
	if rejected {
		if panicked := run.Guard("OnReject", func() error { h.cfg.OnReject(pod, *why); return nil }); panicked != nil {
			rejected, err = false, panicked
		}
	}
	before, told := h.refusalOf(pod.UID)
	now := refusal{rejected: rejected, err: err, since: time.Now()}
	if told && before.rejected == rejected {
		now.since = before.since
	}
	h.locked(func() { h.refused[pod.UID] = now })
	switch {
	case told && before.err.Error() == err.Error() && before.rejected == rejected:
	case rejected:
		h.cfg.Logger.Warn("pod was not admitted", append(podAttrs(pod), "reason", why.Reason, "message", why.Message)...)
	default:
		h.cfg.Logger.Warn("pod is held back", append(podAttrs(pod), "err", err, "stack", run.StackOf(err))...)
	}
	return err
}

// admitHeld asks again about the pods that are held back.
func (h *DefaultHandler) admitHeld() {
	refused := 0
	h.locked(func() { refused = len(h.refused) })
	if refused == 0 {
		return
	}
	pods, b := h.newBatch(slices.DeleteFunc(h.desired.Pods(), func(pod *v1.Pod) bool { return !h.held(pod.UID) }))
	for _, pod := range pods {
		if h.admit(pod, b) {
			h.update(podworkers.Update{Type: podworkers.UpdateCreate, Pod: pod})
		}
	}
}

// ActivePods returns the pods that hold resources of the node or are about to, with
// what they were granted: no rejected, held or ended ones, but with those that were
// deleted by force and still terminate.
func (h *DefaultHandler) ActivePods() []*v1.Pod { return h.activeExcept(nil) }

func (h *DefaultHandler) activeExcept(pending map[types.UID]bool) []*v1.Pod {
	var active []*v1.Pod
	for _, pod := range h.desired.Pods() {
		if !pending[pod.UID] && h.isActive(pod) {
			active = append(active, h.cfg.Allocator.Allocated(pod))
		}
	}
	leaving := h.left()
	slices.SortFunc(leaving, compareCreation)
	for _, pod := range leaving {
		state := h.cfg.Workers.State(pod.UID)
		if !pending[pod.UID] && state.State != podworkers.StateUnknown && state.CouldHaveRunningContainers() {
			active = append(active, h.cfg.Allocator.Allocated(pod))
		}
	}
	return active
}

// isActive tells whether a desired pod counts for admission.
func (h *DefaultHandler) isActive(pod *v1.Pod) bool {
	if _, refused := h.refusalOf(pod.UID); refused {
		return false
	}
	state := h.cfg.Workers.State(pod.UID)
	switch {
	case state.KnownTerminated():
		return false
	case h.ended(pod):
		// It has ended, but while its containers stop it holds what it held.
		return state.TerminationRequested()
	}
	return true
}

// ended tells whether a pod has succeeded or failed.
func (h *DefaultHandler) ended(pod *v1.Pod) bool {
	return podfacts.IsTerminalPhase(pod.Status.Phase) || podfacts.IsTerminalPhase(h.cfg.Phase(pod))
}

func (h *DefaultHandler) refusalOf(uid types.UID) (refusal, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	why, ok := h.refused[uid]
	return why, ok
}

// outside tells whether a pod was not admitted and no worker knows it, so that
// none must hear of it.
func (h *DefaultHandler) outside(uid types.UID) bool {
	_, refused := h.refusalOf(uid)
	return refused && h.cfg.Workers.State(uid).State == podworkers.StateUnknown
}

// held tells whether a pod is held back, to be asked about again.
func (h *DefaultHandler) held(uid types.UID) bool {
	why, refused := h.refusalOf(uid)
	return refused && !why.rejected && h.cfg.Workers.State(uid).State == podworkers.StateUnknown
}

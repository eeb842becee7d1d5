package writer

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// Set replaces the status of a pod by a copy of s in normal form: times in whole seconds,
// termination messages truncated to their share of 12 KiB per pod, init containers in the order
// of the spec, the others by name. The start time, the observed generation and the transition
// times of unchanged conditions stay. The previous status is the last argument of Set or Restore,
// otherwise the mirror's status, otherwise the pod's own.
//
// A status in which a container runs again after its final end is logged and discarded, without
// an error. A status equal to the previous one is not written, unless the pod has a deletion
// request.
//
// Set returns an error, without an effect, for a pod without UID, name or namespace.
func (w *Writer) Set(pod *v1.Pod, s v1.PodStatus) error {
	if err := checkIdentity(pod); err != nil {
		return err
	}
	s = *s.DeepCopy()
	w.update(pod, pod.DeletionTimestamp != nil, func(*entry, *v1.PodStatus) v1.PodStatus { return s })
	return nil
}

func checkIdentity(pod *v1.Pod) error {
	if err := podfacts.CheckIdentity(pod); err != nil {
		return fmt.Errorf("writer: %w", err)
	}
	return nil
}

// Terminate records that a pod has neither containers nor resources any longer. Containers
// without a known end get exit code 137, and a pod without a terminal phase fails, unless it is
// static. A pod with a deletion request is removed from a sink after the sink has accepted its
// terminal phase. The error is the same as for Set.
func (w *Writer) Terminate(pod *v1.Pod) error {
	if err := checkIdentity(pod); err != nil {
		return err
	}
	w.update(pod, true, func(e *entry, before *v1.PodStatus) v1.PodStatus {
		judged := *pod
		judged.Status = *w.decisiveStatus(e, pod, before)
		for _, d := range e.deliveries {
			d.finished = true
		}
		return podstatus.Finalize(&judged, *before, time.Now())
	})
	return nil
}

// decisiveStatus returns the status that decides the end of a pod: the last known status of the
// first sink, otherwise the pod's own, or before if there are only Receivers. The caller holds mu.
func (w *Writer) decisiveStatus(e *entry, pod *v1.Pod, before *v1.PodStatus) *v1.PodStatus {
	decisive := before
	for _, d := range e.deliveries {
		switch {
		case d.receives:
		case d.base != nil:
			return d.base.status
		default:
			decisive = &pod.Status
		}
	}
	return decisive
}

// Change replaces the status of a pod by the result of next. It has no effect for a pod without a
// status. next is called under a lock: it must be fast and not call the Writer. Its argument is
// shared and must not be changed, but the result may share memory with it. Otherwise Change works
// like Set.
func (w *Writer) Change(uid types.UID, next func(v1.PodStatus) v1.PodStatus) {
	w.edit(uid, false, func(_ *v1.Pod, s v1.PodStatus) (v1.PodStatus, bool) { return next(s), true })
}

// SetProbed applies the result of a readiness or startup probe, and its effect on the pod, at
// once. It has no effect for an unknown pod or container. Receivers receive the status after
// every probe, because a checkpoint stores probe results beside it.
func (w *Writer) SetProbed(c probe.Change) {
	passed := c.Result == probe.Success
	w.edit(c.UID, true, func(pod *v1.Pod, s v1.PodStatus) (v1.PodStatus, bool) {
		switch c.Type {
		case probe.Readiness:
			return podstatus.WithContainerReady(pod, s, c.ContainerID, passed, time.Now())
		case probe.Startup:
			return podstatus.WithContainerStarted(pod, s, c.ContainerID, passed, time.Now())
		default: // liveness results restart containers and are not part of a status
			return s, false
		}
	})
}

// Restore sets the status that a pod had before a restart of the agent. Get returns it, and the
// next status is based on it, but it is not written. Restore has no effect for a pod that already
// has a status. If a condition of the mirror's status, or of the pod's own without a mirror, has
// changed later, it replaces the restored one, because an agent of another kind may have run
// meanwhile and no condition may go back in time. The error is the same as for Set.
//
// A restored pod that Prune drops is deleted like any other. So an agent that passes to Restore every
// pod that a DeletionReceiver has at its start misses no deletion, even after a crash.
func (w *Writer) Restore(pod *v1.Pod, s v1.PodStatus) error {
	if err := checkIdentity(pod); err != nil {
		return err
	}
	uid := w.translate(pod.UID)
	s = *s.DeepCopy()
	mergeNewer(s.Conditions, w.externalStatus(uid, pod).Conditions)
	s = podstatus.Normalize(pod, s)
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entry(uid); e.status == nil {
		e.replace(pod, &s)
	}
	return nil
}

// mergeNewer replaces conditions by those of the same type that have changed later.
func mergeNewer(conditions, other []v1.PodCondition) {
	for i := range conditions {
		if c := podfacts.Condition(other, conditions[i].Type); c != nil && conditions[i].LastTransitionTime.Before(&c.LastTransitionTime) {
			conditions[i] = *c.DeepCopy()
		}
	}
}

// externalStatus returns the status of the pod's mirror, or of the pod itself without one.
func (w *Writer) externalStatus(uid types.UID, pod *v1.Pod) *v1.PodStatus {
	if w.cfg.Mirror != nil && podfacts.IsStatic(pod) {
		if mirror := w.cfg.Mirror(uid); mirror != nil {
			return &mirror.Status
		}
	}
	return &pod.Status
}

func (w *Writer) update(pod *v1.Pod, forced bool, next func(*entry, *v1.PodStatus) v1.PodStatus) {
	uid := w.translate(pod.UID)
	before := w.externalStatus(uid, pod)
	w.mu.Lock()
	e := w.entry(uid)
	if e.status != nil {
		before = e.status
	}
	c := w.store(e, pod, before, next(e, before), forced)
	w.mu.Unlock()
	w.report(uid, c)
}

// edit changes an existing status. resend makes Receivers receive it even without a change.
func (w *Writer) edit(uid types.UID, resend bool, next func(*v1.Pod, v1.PodStatus) (v1.PodStatus, bool)) {
	uid = w.translate(uid)
	w.mu.Lock()
	var c change
	if e := w.entries[uid]; e != nil && !e.pruned {
		if s, ok := next(e.pod, *e.status); ok {
			c = w.store(e, e.pod, e.status, s, false)
		}
		for _, d := range e.deliveries {
			if resend && e.set && d.receives {
				d.resend(time.Now())
				d.target.enqueue(d)
			}
		}
	}
	w.mu.Unlock()
	w.report(uid, c)
}

// store makes s the newest status of a pod. The caller holds mu.
func (w *Writer) store(e *entry, pod *v1.Pod, before *v1.PodStatus, s v1.PodStatus, forced bool) (c change) {
	if err := podstatus.CheckTransition(pod, before, &s); err != nil {
		w.cfg.Logger.Error("Status discarded", "pod", pod.Namespace+"/"+pod.Name, "podUID", pod.UID, "err", err)
		if e.status != nil {
			return c
		}
		s = *before
	}
	now := time.Now()
	s = podstatus.Normalize(pod, podstatus.Follow(*before, s, now))
	c = change{happened: e.status == nil || !e.set || e.pruned || !podstatus.Equal(e.status, &s), before: e.status, after: &s}
	e.replace(pod, &s) // even if equal: data of other components may have changed
	if !c.happened && !forced {
		return c
	}
	e.pruned, e.set = false, true
	for _, d := range e.deliveries {
		d.set(pod, &s, now)
		d.target.enqueue(d)
	}
	return c
}

// replace sets pod and status without a write.
func (e *entry) replace(pod *v1.Pod, s *v1.PodStatus) {
	e.pod, e.status = pod, s
	for _, d := range e.deliveries {
		d.replace(pod, s)
	}
}

type change struct {
	happened      bool
	before, after *v1.PodStatus
}

// report calls the callbacks for a change. The caller must not hold mu.
func (w *Writer) report(uid types.UID, c change) {
	if w.cfg.Metrics.OnTerminated != nil && c.before != nil {
		w.reportTerminated("init_containers", c.before.InitContainerStatuses, c.after.InitContainerStatuses)
		w.reportTerminated("containers", c.before.ContainerStatuses, c.after.ContainerStatuses)
		w.reportTerminated("ephemeral_containers", c.before.EphemeralContainerStatuses, c.after.EphemeralContainerStatuses)
	}
	if c.happened && w.cfg.OnChange != nil {
		w.cfg.OnChange(uid)
	}
}

func (w *Writer) reportTerminated(kind string, before, after []v1.ContainerStatus) {
	for _, c := range after {
		wasTerminated := slices.ContainsFunc(before, func(b v1.ContainerStatus) bool { return b.Name == c.Name && b.State.Terminated != nil })
		if c.State.Terminated != nil && !wasTerminated {
			w.cfg.Metrics.OnTerminated(kind, c.State.Terminated)
		}
	}
}

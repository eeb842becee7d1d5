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
// termination messages cut to their share of 12 KiB per pod, init containers in the order
// of the spec, the others by name. The start time, the observed generation and the
// transition times of unchanged conditions stay. The previous status is the last
// argument of Set or Restore, else the mirror's status, else the pod's own.
//
// A status that revives a container which has ended for good is refused and logged. One
// that equals the previous one is not written, unless the pod is to be deleted.
//
// Set fails for a pod without UID, name or namespace and then changes nothing.
func (w *Writer) Set(pod *v1.Pod, s v1.PodStatus) error {
	if err := identified(pod); err != nil {
		return err
	}
	s = *s.DeepCopy()
	w.update(pod, pod.DeletionTimestamp != nil, func(*entry, *v1.PodStatus) v1.PodStatus { return s })
	return nil
}

func identified(pod *v1.Pod) error {
	if err := podfacts.CheckIdentity(pod); err != nil {
		return fmt.Errorf("writer: %w", err)
	}
	return nil
}

// Terminate records that a pod has neither containers nor resources any longer. Containers without a known end get exit code 137, and a pod without a
// terminal phase fails, unless it is static. A pod that is to be deleted is removed
// from a sink after that has accepted its terminal phase. The error is that of Set.
func (w *Writer) Terminate(pod *v1.Pod) error {
	if err := identified(pod); err != nil {
		return err
	}
	w.update(pod, true, func(e *entry, before *v1.PodStatus) v1.PodStatus {
		judged := *pod
		judged.Status = *w.shown(e, pod, before)
		for _, d := range e.deliveries {
			d.finished = true
		}
		return podstatus.Finalize(&judged, *before, time.Now())
	})
	return nil
}

// shown is the status by which the end of a pod is judged: the one that the first
// sink is known to have, else the pod's own; before where there is no other account
// of the pod. w.mu is held.
func (w *Writer) shown(e *entry, pod *v1.Pod, before *v1.PodStatus) *v1.PodStatus {
	shown := before
	for _, d := range e.deliveries {
		switch {
		case d.receives:
		case d.base != nil:
			return d.base.status
		default:
			shown = &pod.Status
		}
	}
	return shown
}

// Change replaces the status of a pod by what next makes of it; a pod without one
// stays so. next is called under a lock: it must be quick and not call back. The
// status that it is given is shared: it must not be changed, but what is returned
// may share memory with it. For the rest it is as with Set.
func (w *Writer) Change(uid types.UID, next func(v1.PodStatus) v1.PodStatus) {
	w.edit(uid, false, func(_ *v1.Pod, s v1.PodStatus) (v1.PodStatus, bool) { return next(s), true })
}

// SetProbed shows the result of a readiness or startup probe, and its effect on the pod,
// at once. It does nothing for an unknown pod or container. Receivers get the status after every probe, since a checkpoint
// keeps results of probes beside it.
func (w *Writer) SetProbed(c probe.Change) {
	passed := c.Result == probe.Success
	w.edit(c.UID, true, func(pod *v1.Pod, s v1.PodStatus) (v1.PodStatus, bool) {
		switch c.Type {
		case probe.Readiness:
			return podstatus.WithContainerReady(pod, s, c.ContainerID, passed, time.Now())
		case probe.Startup:
			return podstatus.WithContainerStarted(pod, s, c.ContainerID, passed, time.Now())
		default: // a liveness probe restarts containers, and appears in no status
			return s, false
		}
	})
}

// Restore states the status that a pod had in an earlier life of the agent. It is
// what the next one follows from, and what Get returns until then, but is not
// written, and does nothing for a pod that has a status already. A condition that has
// changed later by the mirror's word, or else by the pod's own, is taken from there: an
// agent of another kind was here meanwhile, and no condition goes back in time. The error
// is that of Set.
func (w *Writer) Restore(pod *v1.Pod, s v1.PodStatus) error {
	if err := identified(pod); err != nil {
		return err
	}
	uid := w.translate(pod.UID)
	s = *s.DeepCopy()
	takeLater(s.Conditions, w.shownElsewhere(uid, pod).Conditions)
	s = podstatus.Normalize(pod, s)
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entry(uid); e.status == nil {
		e.hold(pod, &s)
	}
	return nil
}

// takeLater replaces conditions by those of the same type that have changed later.
func takeLater(conditions, other []v1.PodCondition) {
	for i := range conditions {
		if c := podfacts.Condition(other, conditions[i].Type); c != nil && conditions[i].LastTransitionTime.Before(&c.LastTransitionTime) {
			conditions[i] = *c.DeepCopy()
		}
	}
}

// shownElsewhere is the status that the mirror of a pod has, or else the pod.
func (w *Writer) shownElsewhere(uid types.UID, pod *v1.Pod) *v1.PodStatus {
	if w.cfg.Mirror != nil && podfacts.IsStatic(pod) {
		if mirror := w.cfg.Mirror(uid); mirror != nil {
			return &mirror.Status
		}
	}
	return &pod.Status
}

// update sets the status that next makes of the one before.
func (w *Writer) update(pod *v1.Pod, forced bool, next func(*entry, *v1.PodStatus) v1.PodStatus) {
	uid := w.translate(pod.UID)
	before := w.shownElsewhere(uid, pod)
	w.mu.Lock()
	e := w.entry(uid)
	if e.status != nil {
		before = e.status
	}
	c := w.store(e, pod, before, next(e, before), forced)
	w.mu.Unlock()
	w.report(uid, c)
}

// edit changes an existing status. again has Receivers get it in any case.
func (w *Writer) edit(uid types.UID, again bool, next func(*v1.Pod, v1.PodStatus) (v1.PodStatus, bool)) {
	uid = w.translate(uid)
	w.mu.Lock()
	var c change
	if e := w.entries[uid]; e != nil && !e.leaving {
		if s, ok := next(e.pod, *e.status); ok {
			c = w.store(e, e.pod, e.status, s, false)
		}
		for _, d := range e.deliveries {
			if again && e.set && d.receives {
				d.again(time.Now())
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
		w.cfg.Logger.Error("Status refused", "pod", pod.Namespace+"/"+pod.Name, "podUID", pod.UID, "err", err)
		if e.status != nil {
			return c
		}
		s = *before
	}
	now := time.Now()
	s = podstatus.Normalize(pod, podstatus.Follow(*before, s, now))
	c = change{happened: e.status == nil || !e.set || e.leaving || !podstatus.Equal(e.status, &s), before: e.status, after: &s}
	e.hold(pod, &s) // even if equal: the parts of others may have changed
	if !c.happened && !forced {
		return c
	}
	e.leaving, e.set = false, true
	for _, d := range e.deliveries {
		d.set(pod, &s, now)
		d.target.enqueue(d)
	}
	return c
}

// hold replaces pod and status without a write.
func (e *entry) hold(pod *v1.Pod, s *v1.PodStatus) {
	e.pod, e.status = pod, s
	for _, d := range e.deliveries {
		d.hold(pod, s)
	}
}

// change is a change of a status. before is nil for the first one.
type change struct {
	happened      bool
	before, after *v1.PodStatus
}

// report calls the callbacks about a change. The caller does not hold mu.
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

// reportTerminated reports the containers that have terminated between two statuses.
func (w *Writer) reportTerminated(kind string, before, after []v1.ContainerStatus) {
	for _, c := range after {
		had := slices.ContainsFunc(before, func(b v1.ContainerStatus) bool { return b.Name == c.Name && b.State.Terminated != nil })
		if c.State.Terminated != nil && !had {
			w.cfg.Metrics.OnTerminated(kind, c.State.Terminated)
		}
	}
}

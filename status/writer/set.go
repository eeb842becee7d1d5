package writer

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status"
)

// Set states the status of a pod. It is copied, and Normalized. What the status
// before knows stays where it has to (status.Follow). The one before is the one that
// was set last or restored, else the mirror's, else the pod's own.
//
// A status in which a container that has ended for good has not
// (status.CheckTransition) is refused with a line in the log. One that says the same
// as before is not written; of a pod that is to be deleted, what is left to do is
// looked at anew.
//
// The error is that of a pod without UID, name or namespace; nothing has changed
// then.
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

// Terminate states that nothing is left of a pod, neither containers nor anything
// that they held (status.Finalize). A pod that is to be deleted is removed from a
// sink once that has accepted a terminal phase of it. The error is that of Set.
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
		return status.Finalize(&judged, *before, time.Now())
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
	w.edit(uid, func(_ *v1.Pod, s v1.PodStatus) (v1.PodStatus, bool) { return next(s), true })
}

// SetContainerReadiness states whether a container is ready, and what follows from
// that for the pod, at once; see status.WithContainerReady. Of a pod or container
// that is not known, and when it changes nothing, it does nothing.
func (w *Writer) SetContainerReadiness(uid types.UID, containerID string, ready bool) {
	w.edit(uid, func(pod *v1.Pod, s v1.PodStatus) (v1.PodStatus, bool) {
		return status.WithContainerReady(pod, s, containerID, ready, time.Now())
	})
}

// SetContainerStartup states whether a container has started; see
// status.WithContainerStarted.
func (w *Writer) SetContainerStartup(uid types.UID, containerID string, started bool) {
	w.edit(uid, func(pod *v1.Pod, s v1.PodStatus) (v1.PodStatus, bool) {
		return status.WithContainerStarted(pod, s, containerID, started, time.Now())
	})
}

// SetProbed shows at once what a readiness or startup probe has found: a
// probe.Config.Changed that wakes the pod's worker, too, needs nothing more.
// Receivers are handed the status whatever the probe: one that keeps results of
// probes beside it has another one to keep.
func (w *Writer) SetProbed(c probe.Change) {
	passed := c.Result == probe.Success
	switch c.Type {
	case probe.Readiness:
		w.SetContainerReadiness(c.UID, c.ContainerID, passed)
	case probe.Startup:
		w.SetContainerStartup(c.UID, c.ContainerID, passed)
	case probe.Liveness: // restarts containers, and says nothing in a status
	}
	uid, now := w.translate(c.UID), time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entries[uid]; e != nil && e.set {
		for _, d := range e.deliveries {
			if d.receives {
				d.again(now)
				d.target.enqueue(d)
			}
		}
	}
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
	s = status.Normalize(pod, s)
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
	w.tell(uid, c)
}

// edit changes a status that is there.
func (w *Writer) edit(uid types.UID, next func(*v1.Pod, v1.PodStatus) (v1.PodStatus, bool)) {
	uid = w.translate(uid)
	w.mu.Lock()
	var c change
	if e := w.entries[uid]; e != nil && !e.leaving {
		if s, ok := next(e.pod, *e.status); ok {
			c = w.store(e, e.pod, e.status, s, false)
		}
	}
	w.mu.Unlock()
	w.tell(uid, c)
}

// store makes s the newest status of a pod. w.mu is held.
func (w *Writer) store(e *entry, pod *v1.Pod, before *v1.PodStatus, s v1.PodStatus, forced bool) (c change) {
	if err := status.CheckTransition(pod, before, &s); err != nil {
		w.cfg.Logger.Error("status refused", "pod", podfacts.FullName(pod), "uid", pod.UID, "err", err)
		if e.status != nil {
			return c
		}
		// Nothing was said of it yet: what is known stays.
		s = *before
	}
	now := time.Now()
	s = status.Normalize(pod, status.Follow(*before, s, now))
	c.happened = e.status == nil || !e.set || e.leaving || !status.Equal(e.status, &s)
	if !c.happened && !forced {
		e.hold(pod, &s) // what others own may have changed
		return c
	}
	if e.status != nil {
		c.ended = newlyTerminated(e.status, &s)
	}
	e.hold(pod, &s)
	e.leaving, e.set = false, true
	for _, d := range e.deliveries {
		if d.gone {
			d.slot = slot{receives: d.receives}
		}
		d.set(pod, &s, now)
		d.target.enqueue(d)
	}
	return c
}

// hold makes s the newest status, without having it written.
func (e *entry) hold(pod *v1.Pod, s *v1.PodStatus) {
	e.pod, e.status = pod, s
	for _, d := range e.deliveries {
		d.pod, d.status = pod, s
	}
}

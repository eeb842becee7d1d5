package podworkerstest

import (
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/podworkers"
)

// updated records an update, according to lifecycle 1.3.
func (c *Checker) updated(e podworkers.TraceEvent) {
	u := e.Update
	l := c.pods[e.UID]
	isNew := l == nil
	if isNew {
		l = &life{}
		c.pods[e.UID] = l
	}
	if u.Kill != nil && u.Kill.Done != nil {
		c.await(e.UID, u.Kill.Done)
	}
	toEnd := u.Pod == nil || requestsTermination(u)
	switch {
	case !isNew && u.Type == podworkers.UpdateCreate && l.leaving(),
		!isNew && l.spec == nil && u.Pod != nil && !toEnd: // the orphan must be stopped first
		l.restart = true
	case (l.stopped || l.state == podworkers.StateFinished) && u.Pod == nil: // the runtime's list is stale
	default:
		c.accepted(e.UID, l, e, isNew)
	}
	if u.Kill != nil && u.Kill.Status != nil && l.leaving() && !l.stopped {
		l.status = u.Kill.Status
	}
}

func (c *Checker) accepted(uid types.UID, l *life, e podworkers.TraceEvent, isNew bool) {
	u := e.Update
	l.deleted = l.deleted || u.Pod == nil || u.Pod.DeletionTimestamp != nil
	l.evicted = l.evicted || u.Type == podworkers.UpdateKill && u.Kill != nil && u.Kill.Evict
	if l.state == podworkers.StateFinished {
		return
	}
	l.callDue = true
	if u.Pod == nil {
		l.observed = true
	} else {
		c.learn(uid, l, u.Pod, isNew)
	}
	if isNew && e.Stopped && u.Pod != nil && podfacts.IsTerminalPhase(u.Pod.Status.Phase) {
		l.stopped = true
		c.leaveLine(uid, l)
		return
	}
	if u.Pod == nil || requestsTermination(u) {
		c.endRequested(uid, l)
	}
	if l.leaving() && !l.stopped {
		var override *int64
		if u.Kill != nil {
			override = u.Kill.GracePeriodSeconds
		}
		l.shorten(override)
	}
}

// learn stores a newer spec. The first spec determines whether the pod is static.
func (c *Checker) learn(uid types.UID, l *life, pod *v1.Pod, isNew bool) {
	if l.spec == nil && podfacts.IsStatic(pod) {
		l.static = podfacts.FullName(pod)
		if isNew {
			s := c.name(l.static)
			s.line = append(s.line, uid)
		}
	}
	l.spec = pod
}

func (c *Checker) await(uid types.UID, done chan<- struct{}) {
	if _, ok := c.done[done]; !ok {
		c.done[done] = waiter{uid: uid}
		c.openDone[uid]++
	}
}

// leaving reports whether the pod's termination was requested, or it is stopped already.
func (l *life) leaving() bool { return l.ending || l.stopped }

// endRequested records a termination request. A waiter that never ran leaves its line, unless
// the runtime lists it: then it must be stopped first.
func (c *Checker) endRequested(uid types.UID, l *life) {
	l.ending = true
	if !l.observed {
		c.leaveLine(uid, l)
	}
}

// shorten computes the smallest of the grace periods that are present (1.6).
func (l *life) shorten(override *int64) {
	if l.spec == nil {
		l.grace = 1
		return
	}
	var present []int64
	if l.grace > 0 {
		present = append(present, l.grace)
	}
	for _, p := range []*int64{l.spec.DeletionGracePeriodSeconds, override} {
		if p != nil {
			present = append(present, *p)
		}
	}
	if p := l.spec.Spec.TerminationGracePeriodSeconds; p != nil && len(present) == 0 {
		present = append(present, *p)
	}
	l.grace = 1
	if len(present) > 0 {
		l.grace = max(1, slices.Min(present))
	}
}

// rest is the shortest time between a failure and a retry by SyncKnownPods.
const rest = time.Second

// desired records SyncKnownPods.
func (c *Checker) desired(e podworkers.TraceEvent) {
	c.known = true
	wanted := make(map[types.UID]bool, len(e.Desired))
	for _, uid := range e.Desired {
		wanted[uid] = true
	}
	for uid, l := range c.pods {
		l.orphaned = !wanted[uid]
		switch {
		case l.state == podworkers.StateFinished:
			l.mustForget = l.orphaned || l.restart
		case !l.orphaned:
			continue
		case l.state == podworkers.StateWaiting:
			l.mustForget = true
			c.leaveLine(uid, l)
		case !l.leaving():
			l.deleted, l.callDue = true, true
			c.endRequested(uid, l)
			l.shorten(nil)
		default:
			// A running call is not repeated, and a failed one only after rest.
			l.deleted = true
			l.callDue = l.callDue || l.running == podworkers.CallNone && !e.At.Before(l.failedAt.Add(rest))
		}
		c.touched = append(c.touched, uid)
	}
}

func (c *Checker) ran() {
	c.open = true
	for uid := range c.pods {
		c.touched = append(c.touched, uid)
	}
}

// ended records the end of a call of the syncer.
func (c *Checker) ended(e podworkers.TraceEvent) {
	c.ends[e.UID] = e.At
	l := c.pods[e.UID]
	if l == nil {
		c.report(Violation{Rule: "INV-1", UID: e.UID, At: e.At, What: e.Call.String() + " ends after the pod was forgotten"})
		return
	}
	c.judge(c.rules.end, l, &e)
	l.running, l.failedAt = podworkers.CallNone, time.Time{}
	if e.Err != nil {
		var timed podworkers.Backoff
		l.failedAt, l.timed = e.At, errors.As(e.Err, &timed)
		return
	}
	switch e.Call {
	case podworkers.CallSyncPod:
		if e.Terminal && !l.ending {
			l.ending, l.callDue = true, true
			l.shorten(nil)
		}
	case podworkers.CallSyncTerminatingPod:
		l.stopped, l.callDue = true, true
	case podworkers.CallSyncTerminatingOrphan:
		l.removed = l.spec == nil
		l.callDue = l.spec != nil
	case podworkers.CallSyncTerminatedPod:
		l.cleaned, l.callDue = true, false
	}
}

func (c *Checker) name(full string) *name {
	s := c.names[full]
	if s == nil {
		s = &name{}
		c.names[full] = s
	}
	return s
}

func (c *Checker) leaveLine(uid types.UID, l *life) {
	if l.static == "" {
		return
	}
	s := c.name(l.static)
	s.line = without(s.line, uid)
	c.nextInLine(l.static)
}

func (c *Checker) vacate(uid types.UID, l *life) {
	if l.static == "" {
		return
	}
	s := c.name(l.static)
	s.line, s.holders = without(s.line, uid), without(s.holders, uid)
	c.nextInLine(l.static)
}

// nextInLine marks the next waiter of a name for Settle.
func (c *Checker) nextInLine(full string) {
	s := c.names[full]
	if len(s.line) > 0 {
		c.touched = append(c.touched, s.line[0])
	} else if len(s.holders) == 0 {
		delete(c.names, full)
	}
}

func without(uids []types.UID, uid types.UID) []types.UID {
	return slices.DeleteFunc(uids, func(other types.UID) bool { return other == uid })
}

func requestsTermination(u podworkers.Update) bool {
	return u.Type == podworkers.UpdateKill || u.Pod.DeletionTimestamp != nil || podfacts.IsTerminalPhase(u.Pod.Status.Phase)
}

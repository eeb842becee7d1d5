package podworkerstest

import (
	"slices"

	"github.com/podwright/podwright/podworkers"
)

// The rules in this file are checked after all decisions upon an input.

func doneLeftOpen(c *Checker, l *life, e *ev) string {
	if l.state != podworkers.StateTerminationRequested && l.state != podworkers.StateTerminating && c.waiting(e.UID) {
		return "is not terminating, but its done channel is open"
	}
	return ""
}

func notCancelled(_ *Checker, l *life, _ *ev) string {
	if l.running == podworkers.CallSyncPod && l.ending && l.cancelledAt.IsZero() {
		return "SyncPod is not cancelled although termination was requested"
	}
	return ""
}

func graceNotShortened(_ *Checker, l *life, _ *ev) string {
	if l.running == podworkers.CallSyncTerminatingPod && l.grace < l.passed && l.cancelledAt.IsZero() {
		return "SyncTerminatingPod is not cancelled although its grace period was shortened"
	}
	return ""
}

func stillSyncing(_ *Checker, l *life, _ *ev) string {
	if l.ending && (l.state == podworkers.StateSyncing || l.state == podworkers.StateWaiting) {
		return "is " + l.state.String() + " although termination was requested"
	}
	return ""
}

func stuckBetweenPhases(_ *Checker, l *life, _ *ev) string {
	switch {
	case l.stopped && l.state < podworkers.StateTerminated:
		return "has stopped, but is " + l.state.String()
	case l.cleaned && l.state < podworkers.StateFinished:
		return "is cleaned up, but " + l.state.String()
	case l.removed:
		return "was removed from the runtime, but is not forgotten"
	}
	return ""
}

func callMissing(c *Checker, l *life, _ *ev) string {
	waits := l.static != "" && !l.begun && !l.leaving() // nameSlotMissed checks these
	if c.open && l.callDue && l.running == podworkers.CallNone && l.state != podworkers.StateFinished && !waits {
		return "a call is due in " + l.state.String() + ", but no call runs"
	}
	return ""
}

func nameSlotMissed(c *Checker, l *life, e *ev) string {
	if l.static == "" || l.begun || l.leaving() || !c.open {
		return ""
	}
	s := c.name(l.static)
	if len(s.holders) == 0 && len(s.line) > 0 && s.line[0] == e.UID {
		return "is first in line for its name, but does not start"
	}
	return ""
}

func restartMissed(_ *Checker, l *life, _ *ev) string {
	if l.mustForget && l.restart {
		return "is finished and must restart, but is not forgotten"
	}
	return ""
}

func notForgotten(_ *Checker, l *life, _ *ev) string {
	if l.mustForget && !l.restart {
		return "is finished and not desired, but is not forgotten"
	}
	return ""
}

// Workers is the subject of Recorder.Check: *podworkers.Workers.
type Workers interface {
	Pods() []podworkers.PodState
}

// States compares the workers' state of each pod with the trace. It checks rules that no trace
// shows: INV-12, INV-17 (retries), INV-18, INV-19 and D5. No event may occur meanwhile.
func (c *Checker) States(pods []podworkers.PodState) {
	for _, s := range pods {
		l := c.pods[s.UID]
		if l == nil {
			c.report(Violation{Rule: "INV-18", UID: s.UID, What: "still has a state, but was forgotten"})
			continue
		}
		for _, r := range c.rules.states {
			if r.broken(c, l, s) {
				c.report(Violation{Rule: r.id, UID: s.UID, What: r.what + ": " + s.String()})
			}
		}
	}
	if len(pods) < len(c.pods) {
		c.report(Violation{Rule: "INV-9", What: "pods without a reason to be forgotten have no state"})
	}
}

type stateRule struct {
	id, what string
	broken   func(c *Checker, l *life, s podworkers.PodState) bool
}

func newStateRules() []stateRule {
	type state = podworkers.PodState
	hidden := []podworkers.State{podworkers.StateWaiting, podworkers.StateFinished}
	idle := func(s state) bool { return s.Call == podworkers.CallNone && s.State < podworkers.StateFinished }
	return []stateRule{
		{"1.5", "State has another state", func(_ *Checker, l *life, s state) bool { return s.State != l.state }},
		{"INV-1", "State has another call", func(_ *Checker, l *life, s state) bool { return s.Call != l.running }},
		{"INV-12", "State has a spec that no call uses", func(_ *Checker, _ *life, s state) bool {
			return slices.Contains(hidden, s.State) && s.Pod != nil
		}},
		{"INV-13", "State lacks the spec of the running call", func(_ *Checker, l *life, s state) bool {
			return l.running != podworkers.CallNone && s.Pod != l.acted
		}},
		{"INV-6", "State has another grace period", func(_ *Checker, l *life, s state) bool {
			return l.ending && s.GracePeriodSeconds != l.grace
		}},
		{"INV-9", "State has another RestartRequested", func(_ *Checker, l *life, s state) bool { return s.RestartRequested != l.restart }},
		{"D5", "State has another Evicted or Deleted", func(_ *Checker, l *life, s state) bool {
			return s.Evicted != l.evicted || s.Deleted != l.deleted
		}},
		{"D6", "State allows the removal of its containers too early", func(_ *Checker, l *life, s state) bool {
			return s.ContainersMayBeRemoved() && !l.stopped && s.State != podworkers.StateFinished
		}},
		{"INV-17", "State has no next attempt", func(c *Checker, l *life, s state) bool {
			waits := l.static != "" && !l.begun
			return c.open && idle(s) && !waits && s.NextRetry.IsZero()
		}},
		{"INV-17", "State has no WaitsFor", func(_ *Checker, _ *life, s state) bool { return s.WaitsFor == "" }},
		{"INV-19", "State has another DesiredKnown", func(c *Checker, _ *life, s state) bool {
			return s.DesiredKnown != c.known
		}},
	}
}

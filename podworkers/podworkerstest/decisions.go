package podworkerstest

import (
	"slices"
	"time"

	"github.com/podwright/podwright/podworkers"
)

func (c *Checker) moved(e podworkers.TraceEvent) {
	l := c.pods[e.UID]
	if l == nil {
		c.report(Violation{Rule: "INV-9", UID: e.UID, At: e.At, What: "changes its state before any update or SyncKnownPods named it"})
		return
	}
	c.judge(c.rules.state, l, &e)
	l.state = e.To
	switch e.To {
	case podworkers.StateFinished:
		l.callDue = false
		c.vacate(e.UID, l)
	case podworkers.StateUnknown:
		c.vacate(e.UID, l)
		delete(c.pods, e.UID)
	}
}

func (c *Checker) cancelled(e podworkers.TraceEvent) {
	l := c.pods[e.UID]
	if l == nil {
		c.report(Violation{Rule: "1.7", UID: e.UID, At: e.At, What: "is cancelled before any update or SyncKnownPods named it"})
		return
	}
	c.judge(c.rules.cancel, l, &e)
	l.cancelledAt = e.At
}

func (c *Checker) closed(e podworkers.TraceEvent) {
	w, ok := c.done[e.Done]
	switch {
	case !ok:
		c.report(Violation{Rule: "INV-14", At: e.At, What: "an unknown done channel is closed"})
		return
	case w.closed:
		c.report(Violation{Rule: "INV-14", UID: w.uid, At: e.At, What: "its done channel is closed twice"})
		return
	}
	c.done[e.Done] = waiter{uid: w.uid, closed: true}
	c.openDone[w.uid]--
	if l := c.pods[w.uid]; l != nil && (l.state == podworkers.StateTerminationRequested || l.state == podworkers.StateTerminating) {
		c.report(Violation{Rule: "INV-14", UID: w.uid, At: e.At, What: "its done channel is closed before it has stopped"})
	}
}

func (c *Checker) started(e podworkers.TraceEvent) {
	l := c.pods[e.UID]
	if l == nil {
		c.report(Violation{Rule: "INV-9", UID: e.UID, At: e.At, What: e.Call.String() + " begins before any update or SyncKnownPods named the pod"})
		return
	}
	c.judge(c.rules.start, l, &e)
	l.callDue, l.begun, l.running, l.acted = false, true, e.Call, e.Work.Pod
	l.cancelledAt = time.Time{}
	switch e.Call {
	case podworkers.CallSyncTerminatingPod:
		l.terminating, l.passed = true, e.Work.GracePeriodSeconds
	case podworkers.CallSyncTerminatingOrphan:
		l.terminating, l.passed = true, 1
	case podworkers.CallSyncTerminatedPod:
		l.terminated = true
	}
	if l.static != "" {
		s := c.name(l.static)
		s.line = without(s.line, e.UID)
		if !slices.Contains(s.holders, e.UID) {
			s.holders = append(s.holders, e.UID)
		}
	}
}

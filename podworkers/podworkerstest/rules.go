package podworkerstest

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// Violation is a rule that was broken.
type Violation struct {
	// Rule is an invariant ("INV-5") or a section of the lifecycle ("1.7"). Meaning explains it.
	Rule string
	UID  types.UID
	// Pod is "<namespace>/<name>", or empty if only the UID is available.
	Pod  string
	At   time.Time
	What string
}

// Error returns the pod, the violation and the rule.
func (v Violation) Error() string {
	return fmt.Sprintf("%s: %s [%s: %s]", v.subject(), v.What, v.Rule, Meaning(v.Rule))
}

func (v Violation) subject() string {
	switch {
	case v.Pod != "":
		return fmt.Sprintf("pod %s (%s)", v.Pod, v.UID)
	case v.UID != "":
		return fmt.Sprintf("pod %s", v.UID)
	default:
		return "the workers"
	}
}

// rule checks one way to violate an invariant. broken describes the violation or returns "". An
// invariant may have several rules.
type rule struct {
	id     string
	broken func(c *Checker, l *life, e *podworkers.TraceEvent) string
}

// rules are sorted by the time of their check: at a change of state, at a cancellation, before
// the start and the end of a call are recorded, and after all decisions upon an input. states
// are checked against the state that the workers return.
type rules struct {
	state, cancel, start, end, settled []rule
	states                             []stateRule
}

func newRules() *rules {
	return &rules{
		state: []rule{
			{"1.5", transition}, {"INV-8", stoppedForGood}, {"INV-9", forgottenByKnown}, {"INV-1", forgottenWhileRunning},
			{"INV-5", endsForAReason},
		},
		cancel: []rule{{"1.7", cancelCause}},
		start: []rule{
			{"INV-1", overlap}, {"1.4", callOutsideRun}, {"1.5", callOfState}, {"INV-3", order}, {"INV-4", newestSpec}, {"INV-5", sticky},
			{"INV-6", gracePassed}, {"INV-6", graceGrows}, {"INV-7", syncAfterTerminating}, {"INV-8", terminatedUnproven}, {"INV-9", finishedCalled},
			{"INV-11", onePerName}, {"INV-13", orphanReplacesSpec}, {"INV-15", lastStatus}, {"INV-16", staleObservation}, {"INV-17", noPause},
		},
		end: []rule{{"1.7", ignoresCancel}},
		settled: []rule{
			{"INV-14", doneLeftOpen}, {"1.7", notCancelled}, {"INV-6", graceNotShortened}, {"INV-5", stillSyncing},
			{"INV-17", stuckBetweenPhases}, {"INV-2", callMissing}, {"INV-11", nameSlotMissed}, {"INV-10", restartMissed}, {"1.12", notForgotten},
		},
		states: newStateRules(),
	}
}

type ev = podworkers.TraceEvent

// legal reports whether table 1.5 allows the change of state.
func legal(from, to podworkers.State) bool {
	const (
		unknown     = podworkers.StateUnknown
		waiting     = podworkers.StateWaiting
		syncing     = podworkers.StateSyncing
		requested   = podworkers.StateTerminationRequested
		terminating = podworkers.StateTerminating
		terminated  = podworkers.StateTerminated
		finished    = podworkers.StateFinished
	)
	next := [...][]podworkers.State{
		unknown:     {waiting, syncing, requested, terminated},
		waiting:     {syncing, requested, unknown},
		syncing:     {requested, terminating},
		requested:   {terminating, finished},
		terminating: {terminated, unknown},
		terminated:  {finished},
		finished:    {unknown},
	}
	return slices.Contains(next[from], to)
}

func transition(_ *Checker, l *life, e *ev) string {
	if e.From != l.state || !legal(e.From, e.To) {
		return fmt.Sprintf("%s -> %s while in %s", e.From, e.To, l.state)
	}
	return ""
}

func stoppedForGood(_ *Checker, l *life, e *ev) string {
	neverRan := !l.begun && !l.observed && l.static != ""
	switch {
	case e.To == podworkers.StateTerminated && !l.stopped:
		return "is Terminated before its containers have stopped"
	case e.To == podworkers.StateFinished && !l.cleaned && !neverRan:
		return "is Finished without a successful SyncTerminatedPod"
	}
	return ""
}

func forgottenByKnown(c *Checker, l *life, e *ev) string {
	if e.To != podworkers.StateUnknown {
		return ""
	}
	byKnown := c.input == podworkers.TraceKnown && l.mustForget
	byForget := c.input == podworkers.TraceForget && l.state == podworkers.StateFinished && l.restart
	if !byKnown && !byForget && !l.removed {
		return "is forgotten in " + e.From.String() + ", for no reason"
	}
	return ""
}

func forgottenWhileRunning(_ *Checker, l *life, e *ev) string {
	if e.To == podworkers.StateUnknown && l.running != podworkers.CallNone {
		return "is forgotten while " + l.running.String() + " runs"
	}
	return ""
}

func endsForAReason(_ *Checker, l *life, e *ev) string {
	if (e.To == podworkers.StateTerminationRequested || e.To == podworkers.StateTerminating) && !l.ending {
		return "is " + e.To.String() + " without a request"
	}
	return ""
}

func cancelCause(_ *Checker, l *life, e *ev) string {
	switch {
	case l.running == podworkers.CallNone:
		return "is cancelled, but no call runs"
	case !l.cancelledAt.IsZero():
		return l.running.String() + " is cancelled twice"
	case l.running == podworkers.CallSyncPod && l.ending && errors.Is(e.Err, podworkers.ErrTerminationRequested):
		return ""
	case l.running == podworkers.CallSyncTerminatingPod && l.grace < l.passed && errors.Is(e.Err, podworkers.ErrGracePeriodShortened):
		return ""
	}
	return fmt.Sprintf("%s is cancelled without a reason: %v", l.running, e.Err)
}

func overlap(_ *Checker, l *life, e *ev) string {
	if l.running != podworkers.CallNone {
		return fmt.Sprintf("%s begins while %s runs", e.Call, l.running)
	}
	return ""
}

func callOutsideRun(c *Checker, _ *life, e *ev) string {
	if !c.open {
		return e.Call.String() + " begins outside Run"
	}
	return ""
}

func callOfState(_ *Checker, l *life, e *ev) string {
	want := podworkers.StateTerminating
	switch e.Call {
	case podworkers.CallSyncPod:
		want = podworkers.StateSyncing
	case podworkers.CallSyncTerminatedPod:
		want = podworkers.StateTerminated
	}
	if l.state != want {
		return fmt.Sprintf("%s begins in %s", e.Call, l.state)
	}
	return ""
}

func order(_ *Checker, l *life, e *ev) string {
	terminatingCall := e.Call == podworkers.CallSyncTerminatingPod || e.Call == podworkers.CallSyncTerminatingOrphan
	switch {
	case e.Call == podworkers.CallSyncPod && (l.terminating || l.terminated),
		terminatingCall && (l.stopped || l.terminated):
		return e.Call.String() + " begins too late in the life of the pod"
	case e.Call == podworkers.CallSyncTerminatedPod && !l.stopped:
		return e.Call.String() + " begins before the pod has stopped"
	}
	return ""
}

func newestSpec(_ *Checker, l *life, e *ev) string {
	if e.Call != podworkers.CallSyncTerminatingOrphan && e.Work.Pod != l.spec {
		return fmt.Sprintf("%s has the spec %s, the newest is %s", e.Call, rev(e.Work.Pod), rev(l.spec))
	}
	return ""
}

func sticky(_ *Checker, l *life, e *ev) string {
	if e.Call == podworkers.CallSyncPod && l.leaving() {
		return "SyncPod begins after termination was requested"
	}
	return ""
}

func gracePassed(_ *Checker, l *life, e *ev) string {
	switch {
	case e.Call == podworkers.CallSyncTerminatingPod && e.Work.GracePeriodSeconds != l.grace:
		return fmt.Sprintf("SyncTerminatingPod has a grace period of %d s, want %d s", e.Work.GracePeriodSeconds, l.grace)
	case e.Call != podworkers.CallSyncTerminatingPod && e.Work.GracePeriodSeconds != 0:
		return e.Call.String() + " has a grace period"
	}
	return ""
}

func graceGrows(_ *Checker, l *life, e *ev) string {
	if e.Call == podworkers.CallSyncTerminatingPod && (e.Work.GracePeriodSeconds < 1 || l.passed > 0 && e.Work.GracePeriodSeconds > l.passed) {
		return fmt.Sprintf("the grace period is %d s after %d s", e.Work.GracePeriodSeconds, l.passed)
	}
	return ""
}

func syncAfterTerminating(_ *Checker, l *life, e *ev) string {
	if e.Call == podworkers.CallSyncPod && l.terminating {
		return "SyncPod begins after a terminating call"
	}
	return ""
}

func terminatedUnproven(_ *Checker, l *life, e *ev) string {
	if e.Call == podworkers.CallSyncTerminatedPod && !l.stopped {
		return "SyncTerminatedPod begins before the containers have stopped"
	}
	return ""
}

func finishedCalled(_ *Checker, l *life, e *ev) string {
	if l.state == podworkers.StateFinished {
		return e.Call.String() + " begins after the pod was Finished"
	}
	return ""
}

func onePerName(c *Checker, l *life, e *ev) string {
	if l.static == "" || l.begun || e.Call != podworkers.CallSyncPod {
		return ""
	}
	s := c.name(l.static)
	switch {
	case len(s.holders) > 0:
		return fmt.Sprintf("starts beside %s, which has the same full name", s.holders[0])
	case len(s.line) > 0 && s.line[0] != e.UID:
		return fmt.Sprintf("starts before %s, which came first", s.line[0])
	}
	return ""
}

// noPause finds failed calls that are repeated immediately, or by each SyncKnownPods, without a
// new input.
func noPause(c *Checker, l *life, e *ev) string {
	atOnce := c.inputAt.Equal(e.At) && (c.input == podworkers.TraceKnown || c.input == podworkers.TraceEnd && !l.timed)
	if atOnce && !l.callDue && e.At.Before(l.failedAt.Add(rest)) {
		return e.Call.String() + " is repeated without a pause after a failure"
	}
	return ""
}

func orphanReplacesSpec(_ *Checker, l *life, e *ev) string {
	if e.Call == podworkers.CallSyncTerminatingOrphan && l.spec != nil {
		return "is stopped as an orphan although it has a spec"
	}
	return ""
}

func lastStatus(_ *Checker, l *life, e *ev) string {
	var want func(*v1.PodStatus)
	if e.Call == podworkers.CallSyncTerminatingPod {
		want = l.status
	}
	if !sameFunc(e.Work.Status, want) {
		return e.Call.String() + " does not have the last status function"
	}
	return ""
}

// sameFunc reports whether two functions are the same value. The language cannot compare them; a
// func value is a pointer to its closure.
func sameFunc(a, b func(*v1.PodStatus)) bool {
	return *(*unsafe.Pointer)(unsafe.Pointer(&a)) == *(*unsafe.Pointer)(unsafe.Pointer(&b))
}

func staleObservation(c *Checker, _ *life, e *ev) string {
	if e.Work.ActedAt.Before(c.ends[e.UID]) {
		return fmt.Sprintf("%s may use observations made before the end of the previous call", e.Call)
	}
	return ""
}

func ignoresCancel(c *Checker, l *life, e *ev) string {
	if c.CancelLimit > 0 && !c.standIns[e.UID] && !l.cancelledAt.IsZero() && e.At.Sub(l.cancelledAt) > c.CancelLimit {
		return fmt.Sprintf("%s returned %v after it was cancelled", e.Call, e.At.Sub(l.cancelledAt))
	}
	return ""
}

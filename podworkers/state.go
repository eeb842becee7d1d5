package podworkers

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is the state of a pod's worker. The order of the constants is the order
// in which a pod passes through them; some are skipped, none is returned to.
type State uint8

// The states.
const (
	// StateUnknown: there is no worker for this UID.
	StateUnknown State = iota
	// StateWaiting: known, never allowed to start: a static pod behind another one
	// of the same full name, or any pod before Run.
	StateWaiting
	// StateSyncing: started, no termination requested.
	StateSyncing
	// StateTerminationRequested: no terminating call has begun yet. The cancelled
	// SyncPod may still be running.
	StateTerminationRequested
	// StateTerminating: a terminating call has begun.
	StateTerminating
	// StateTerminated: the containers are proven stopped.
	StateTerminated
	// StateFinished: everything is cleaned up. The worker remains as a tombstone
	// until SyncKnownPods forgets it.
	StateFinished
)

var stateNames = [...]string{"Unknown", "Waiting", "Syncing", "TerminationRequested", "Terminating", "Terminated", "Finished"}

// String returns the name of the state.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Call is a method of the syncer.
type Call uint8

// The calls.
const (
	CallNone Call = iota
	CallSyncPod
	CallSyncTerminatingPod
	CallSyncTerminatingOrphan
	CallSyncTerminatedPod
)

var callNames = [...]string{"", "SyncPod", "SyncTerminatingPod", "SyncTerminatingOrphan", "SyncTerminatedPod"}

// String returns the name of the method, and nothing for CallNone.
func (c Call) String() string {
	if int(c) < len(callNames) {
		return callNames[c]
	}
	return fmt.Sprintf("Call(%d)", uint8(c))
}

// PodState answers every question about one pod at one moment. The questions
// for the config side (sources, admission) are KnownTerminated,
// CouldHaveRunningContainers and TerminationRequested. Background cleaners ask
// ShouldBeFinished and the ...MayBeRemoved questions: these are true for pods
// that the workers do not know, once SyncKnownPods has been called, while the
// first group is false then.
type PodState struct {
	UID       types.UID
	Namespace string
	Name      string
	State     State
	// DesiredKnown tells that SyncKnownPods has been called at least once, so that
	// StateUnknown means "there is no such pod" and not "we cannot tell yet".
	DesiredKnown bool
	// Since is when the pod entered State.
	Since time.Time
	// Pod is the spec that the worker acts on. It is nil for pods in StateWaiting
	// and StateFinished and for those that only the runtime knows. It must not be
	// changed.
	Pod *v1.Pod

	Static bool
	// Undesired: the last SyncKnownPods did not name the pod.
	Undesired bool
	// RuntimeOnly: only the runtime knows the pod.
	RuntimeOnly bool
	Deleted     bool
	Evicted     bool
	// RestartRequested: a pod with the same UID is to start after this one.
	RestartRequested bool
	// GracePeriodSeconds is zero until termination is requested, and 1 from then on
	// for a pod that only the runtime knows, whatever the syncer gives it.
	GracePeriodSeconds int64

	// Call is what runs now, CallSince since when, and Step what it said with
	// SetStep, at StepSince. CancelledAt is when the call was told that it is not
	// wanted any more, zero if it was not: one that goes on long after is stuck.
	Call        Call
	CallSince   time.Time
	CancelledAt time.Time
	Step        string
	StepSince   time.Time
	// LastError is how the last call failed, at LastErrorAt. Nil after success.
	LastError   error
	LastErrorAt time.Time
	// NextRetry is when the pod is looked at again on its own; zero when a call
	// runs or nothing is planned.
	NextRetry time.Time
	// WaitsFor says in words what has to happen for the pod to move on.
	WaitsFor string
}

// KnownTerminated tells that the pod's containers are proven stopped, by a worker
// that still remembers it.
func (s PodState) KnownTerminated() bool { return s.State >= StateTerminated }

// CouldHaveRunningContainers tells that containers of the pod may run or may be
// started.
func (s PodState) CouldHaveRunningContainers() bool {
	if s.State == StateUnknown {
		return !s.DesiredKnown
	}
	return s.State < StateTerminated
}

// ShouldBeFinished tells that nothing is left to do for the pod.
func (s PodState) ShouldBeFinished() bool { return s.forgotten() || s.State == StateFinished }

// TerminationRequested tells that the pod is on its way out. It is false again
// once the pod is forgotten, so it is not for cleaners.
func (s PodState) TerminationRequested() bool { return s.State >= StateTerminationRequested }

// ContainersShouldBeTerminating tells that a stop of the pod has begun, or that
// there is nothing to stop: from here on no container starts. It is false in
// StateTerminationRequested, where the cancelled SyncPod may still be starting one;
// TerminationRequested tells whether the pod is on its way out.
func (s PodState) ContainersShouldBeTerminating() bool {
	return s.forgotten() || s.State >= StateTerminating
}

// RuntimeMayBeRemoved tells that what the pod used while it ran (volumes, cgroup)
// may go.
func (s PodState) RuntimeMayBeRemoved() bool { return s.forgotten() || s.State >= StateTerminated }

// ContentMayBeRemoved tells that the pod's leftovers (directories, logs) may go.
// For dead containers ask ContainersMayBeRemoved.
func (s PodState) ContentMayBeRemoved() bool {
	switch s.State {
	case StateUnknown:
		return s.DesiredKnown
	case StateTerminationRequested, StateTerminating:
		return s.Evicted
	case StateTerminated, StateFinished:
		return s.Evicted || s.Deleted
	default:
		return false
	}
}

// ContainersMayBeRemoved tells that the pod's dead containers may go: its content
// may, and SyncTerminatingPod has ended well, so the exit codes have been read.
func (s PodState) ContainersMayBeRemoved() bool {
	return s.ContentMayBeRemoved() && s.RuntimeMayBeRemoved()
}

func (s PodState) forgotten() bool { return s.State == StateUnknown && s.DesiredKnown }

// String explains the state in one line.
func (s PodState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pod %s/%s (%s): %s", s.Namespace, s.Name, s.UID, s.State)
	if !s.Since.IsZero() {
		fmt.Fprintf(&b, " since %s", s.Since.Format(time.RFC3339))
	}
	if s.WaitsFor != "" {
		fmt.Fprintf(&b, ", waits for %s", s.WaitsFor)
	}
	if s.Step != "" {
		fmt.Fprintf(&b, " (%s)", s.Step)
	}
	if s.Call != CallNone {
		fmt.Fprintf(&b, " since %s", s.CallSince.Format(time.RFC3339))
	}
	if !s.CancelledAt.IsZero() {
		fmt.Fprintf(&b, ", cancelled at %s", s.CancelledAt.Format(time.RFC3339))
	}
	if s.LastError != nil {
		fmt.Fprintf(&b, ", last error: %v", s.LastError)
	}
	if !s.NextRetry.IsZero() {
		fmt.Fprintf(&b, ", next attempt at %s", s.NextRetry.Format(time.RFC3339))
	}
	return b.String()
}

// KnownPod is what SyncKnownPods says about a pod that still has a worker.
type KnownPod struct {
	// State is StateSyncing (also while waiting), StateTerminating (also when
	// merely requested) or StateTerminated (also when finished).
	State State
	// Undesired tells that SyncKnownPods did not name the pod.
	Undesired bool
	// HasConfig tells that its spec is known, not only what the runtime said.
	HasConfig bool
	// Static tells that it does not come from the API server.
	Static bool
}

func coarse(s State) State {
	switch {
	case s >= StateTerminated:
		return StateTerminated
	case s >= StateTerminationRequested:
		return StateTerminating
	default:
		return StateSyncing
	}
}

package podworkers

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is the state of a pod's worker. A pod passes through the constants in their order. It
// may skip some and never returns to an earlier one.
type State uint8

// The states.
const (
	// StateUnknown: this UID has no worker.
	StateUnknown State = iota
	// StateWaiting: the pod was never allowed to start. It is a static pod behind another one of
	// the same full name, or any pod before Run.
	StateWaiting
	// StateSyncing: started, no termination requested.
	StateSyncing
	// StateTerminationRequested: no terminating call has begun. The cancelled SyncPod may still
	// be running.
	StateTerminationRequested
	// StateTerminating: a terminating call has begun.
	StateTerminating
	// StateTerminated: the containers are proven stopped.
	StateTerminated
	// StateFinished: the pod is completely cleaned up. The worker remains as a tombstone until
	// SyncKnownPods forgets it.
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

// String returns the name of the method, or "" for CallNone.
func (c Call) String() string {
	if int(c) < len(callNames) {
		return callNames[c]
	}
	return fmt.Sprintf("Call(%d)", uint8(c))
}

// PodState is the state of one pod at one moment. Sources and admission use KnownTerminated,
// CouldHaveRunningContainers and TerminationRequested. Background cleaners use ShouldBeFinished
// and the ...MayBeRemoved methods. For a pod without a worker, after the first SyncKnownPods,
// the first group returns false and the second group true.
type PodState struct {
	UID       types.UID
	Namespace string
	Name      string
	State     State
	// DesiredKnown is true after the first SyncKnownPods. StateUnknown then means that the pod
	// does not exist; before, it may still arrive.
	DesiredKnown bool
	// Since is the time at which the pod entered State.
	Since time.Time
	// Pod is the spec of the worker's last call. It must not be changed. It is nil in
	// StateWaiting and StateFinished, and for pods without a spec.
	Pod *v1.Pod

	Static bool
	// Undesired is true if the last SyncKnownPods did not include the pod.
	Undesired bool
	// RuntimeOnly is true if only the runtime listed the pod and no spec was received.
	RuntimeOnly bool
	Deleted     bool
	Evicted     bool
	// RestartRequested is true if a pod with the same UID must start after this one.
	RestartRequested bool
	// GracePeriodSeconds is 0 until termination is requested. For a pod without a spec it is 1
	// from then on, independent of the syncer's choice.
	GracePeriodSeconds int64

	// Call is the running call and CallSince its start. Step is the text of its last SetStep, at
	// StepSince. CancelledAt is the time at which the call's context was cancelled, zero if it
	// was not. A call that runs long after that is stuck.
	Call        Call
	CallSince   time.Time
	CancelledAt time.Time
	Step        string
	StepSince   time.Time
	// LastError is the error of the last call, at LastErrorAt. It is nil after success.
	LastError   error
	LastErrorAt time.Time
	// NextRetry is the time of the next call without an update. It is zero while a call runs and
	// if none is planned.
	NextRetry time.Time
	// WaitsFor describes the event that the pod waits for.
	WaitsFor string
}

// KnownTerminated reports whether the pod has a worker and its containers are proven stopped.
func (s PodState) KnownTerminated() bool { return s.State >= StateTerminated }

// CouldHaveRunningContainers reports whether containers of the pod may run or start.
func (s PodState) CouldHaveRunningContainers() bool {
	if s.State == StateUnknown {
		return !s.DesiredKnown
	}
	return s.State < StateTerminated
}

// ShouldBeFinished reports whether no work remains for the pod.
func (s PodState) ShouldBeFinished() bool { return s.forgotten() || s.State == StateFinished }

// TerminationRequested reports whether the pod must terminate. It is false again once the pod is
// forgotten, so cleaners must not use it.
func (s PodState) TerminationRequested() bool { return s.State >= StateTerminationRequested }

// ContainersShouldBeTerminating reports whether a stop of the pod has begun or no container can
// run: no container starts from then on. It is false in StateTerminationRequested, while the
// cancelled SyncPod may still start one; see TerminationRequested.
func (s PodState) ContainersShouldBeTerminating() bool {
	return s.forgotten() || s.State >= StateTerminating
}

// RuntimeMayBeRemoved reports whether the resources of the running pod (volumes, cgroup) may be
// removed.
func (s PodState) RuntimeMayBeRemoved() bool { return s.forgotten() || s.State >= StateTerminated }

// ContentMayBeRemoved reports whether the pod's files (directories, logs) may be removed. For
// stopped containers use ContainersMayBeRemoved.
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

// ContainersMayBeRemoved reports whether the pod's stopped containers may be removed: its
// content may be removed, and SyncTerminatingPod has succeeded, so the exit codes were read.
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

// KnownPod is an entry of SyncKnownPods' result: a pod that still has a worker.
type KnownPod struct {
	// State is StateSyncing (also while waiting), StateTerminating (also when termination was
	// only requested) or StateTerminated (also when finished).
	State State
	// Undesired is true if SyncKnownPods did not include the pod.
	Undesired bool
	// HasConfig is true if a source sent the pod's spec.
	HasConfig bool
	// Static is true if the pod does not come from the API server.
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

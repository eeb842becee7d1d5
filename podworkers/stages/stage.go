package stages

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Stage is one kind of thing that a pod holds on the node besides its containers.
// It needs nothing of this package. Its name and the moment of its release stand in
// the list (Entry).
//
// A List calls Prepare and Release one at a time for a pod, and of different pods at
// the same time, also while Leftovers runs. Every method returns soon after its
// context has ended. The agent may be killed at any moment, within a method too: the
// stage that the next agent opens on the same state goes on from what is there.
// Package stagestest tests all of that.
type Stage interface {
	// Prepare makes what the pod needs before its sandbox is made. It is called at
	// each sync: what is there already is left as it is. An error may leave a part.
	Prepare(ctx context.Context, pod *v1.Pod) error
	// Release takes away everything of a pod, also a part of it. nil means that
	// nothing is left; that there was nothing is no error. What Prepare was not
	// called for by this agent is released as well.
	Release(ctx context.Context, uid types.UID) error
	// Leftovers names every pod of which something is there, wanted or not, in any
	// order: from the moment at which Prepare makes the first of it until Release has
	// returned nil. It comes from what is there (folders, files, mounts) and not from
	// what this agent has done.
	Leftovers(ctx context.Context) ([]types.UID, error)
}

// Moment is when a stage is released.
type Moment uint8

// The moments.
const (
	// Stopped: the pod's containers have stopped for good
	// (podworkers.PodState.RuntimeMayBeRemoved). For what it used while it ran:
	// claims, volumes, cgroup, user range. The final status waits for these.
	Stopped Moment = iota + 1
	// Gone: no source names the pod, and every Sink has taken its last status
	// (podworkers.PodState.ContentMayBeRemoved). For what is of use afterwards:
	// folder, saved status, allocation, logs. It comes after Stopped.
	Gone
)

// String returns the name of the moment.
func (m Moment) String() string {
	switch m {
	case Stopped:
		return "Stopped"
	case Gone:
		return "Gone"
	default:
		return fmt.Sprintf("Moment(%d)", uint8(m))
	}
}

// Entry is a stage in a List. All fields but Timeout are required.
type Entry struct {
	// Name says what the pod holds, in a word or two ("volumes"). It is unique in
	// the list, and part of errors and explanations.
	Name string
	// Release is when the stage is released.
	Release Moment
	// Stage does the work.
	Stage Stage
	// Timeout bounds each Prepare and Release of this stage. Default:
	// 2 min.
	Timeout time.Duration
}

package stages

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Stage is one kind of resource that a pod has on the node besides its containers. It does not
// depend on this package. Entry adds its name and release moment.
//
// A List makes one call of Prepare or Release at a time per pod, parallel calls for different
// pods, and calls of Leftovers at any time. Every method returns soon after its context is done.
// The agent may be killed at any moment, also during a method; the stage that the next agent
// opens on the same state continues from there. Package stagestest tests these rules.
type Stage interface {
	// Prepare creates the pod's resources before its sandbox. It is called at each sync and must
	// not change existing resources. After an error a part of them may exist.
	Prepare(ctx context.Context, pod *v1.Pod) error
	// Release removes all resources of a pod, complete or partial. It returns nil when none
	// exist, also if there were none before. It must also release pods that an earlier agent
	// prepared.
	Release(ctx context.Context, uid types.UID) error
	// Leftovers returns the UIDs of all pods with resources of this stage, desired or not, in
	// any order. A pod is listed from the first resource that Prepare creates until Release has
	// returned nil. The list must come from the actual state (folders, files, mounts), not from
	// the memory of this agent.
	Leftovers(ctx context.Context) ([]types.UID, error)
}

// Moment is the point in a pod's life at which a stage is released.
type Moment uint8

// The moments.
const (
	// Stopped: the pod's containers have stopped for good
	// (podworkers.PodState.RuntimeMayBeRemoved). It is for resources of the running pod: claims,
	// volumes, cgroup, user range. The final status waits for these.
	Stopped Moment = iota + 1
	// Gone: no source names the pod any longer, and its containers are removed. It is for
	// resources that are useful after the pod's end: folder, saved status, allocation, logs. It
	// comes after Stopped.
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
	// Name is a short noun for the resource ("volumes"). It is unique in the list, and part of
	// errors and explanations.
	Name string
	// Release is the moment at which the stage is released.
	Release Moment
	Stage   Stage
	// Timeout bounds each Prepare and Release of this stage. Default: 2 min.
	Timeout time.Duration
}

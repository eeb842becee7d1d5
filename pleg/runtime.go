package pleg

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

// Runtime is what an observer needs of a runtime, and nothing else. Anything
// that lists pods can implement it: a CRI runtime, a fleet of virtual machines,
// a remote device.
//
// Both methods are safe for concurrent use, bounded by their context, and
// return complete answers or an error: a pod or container that could not be
// looked at is never silently left out. What disappears between the list and
// the look at it is no error. A panic counts as an error, a PanicError.
type Runtime interface {
	// ListPods lists every pod with its sandboxes and containers in every
	// state, exited ones included.
	ListPods(ctx context.Context) ([]observed.ListedPod, error)
	// PodStatus looks at one pod in detail. A pod that does not exist is a
	// Pod with only the UID, and no error. It is called for different
	// pods, and at times twice for one, at the same time. ObservedAt is set by
	// the caller.
	PodStatus(ctx context.Context, uid types.UID) (*observed.Pod, error)
}

// EventStream is an optional ability of a Runtime: it names pods as soon as
// something happens to them.
type EventStream interface {
	// PodEvents calls dirty with the UID of each pod to which something
	// happened. It blocks until the stream ends and always returns a non-nil
	// error; ErrNoEvents means that the runtime has none and asking again is
	// of no use until it is restarted. A hint may be lost, doubled, late or
	// out of order: it says "look at this pod" and nothing else. dirty never
	// blocks.
	PodEvents(ctx context.Context, dirty func(types.UID)) error
}

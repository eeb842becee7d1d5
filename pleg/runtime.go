package pleg

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

// Runtime is the interface of an observed runtime. Any system that lists pods can implement it:
// a CRI runtime, a fleet of virtual machines, a remote device.
//
// Both methods are safe for concurrent use, bounded by their context, and return either complete
// results or an error: a pod or container without a readable status must not be left out. It is
// no error if a pod or container disappears during the call. A panic counts as an error, a
// PanicError.
type Runtime interface {
	// ListPods lists every pod with its sandboxes and containers in every state, including
	// exited ones.
	ListPods(ctx context.Context) ([]observed.ListedPod, error)
	// PodStatus returns one pod in detail. For a pod that does not exist it returns a Pod with
	// only the UID, and no error. It is called concurrently for different pods, and at times
	// twice for one. The caller sets ObservedAt.
	PodStatus(ctx context.Context, uid types.UID) (*observed.Pod, error)
}

// EventStream is an optional interface of a Runtime. It reports pods that may have changed.
type EventStream interface {
	// PodEvents calls dirty with the UID of each pod that may have changed. It blocks until the
	// stream ends and always returns a non-nil error. ErrNoEvents means that the runtime has no
	// events; the next call follows after 5 min, or after an outage of the runtime. A hint may be
	// lost, duplicate, late or out of order; it only causes an inspection. dirty never blocks.
	PodEvents(ctx context.Context, dirty func(types.UID)) error
}

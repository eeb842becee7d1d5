package syncloop

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Op says what changed about pods.
type Op uint8

// The operations, in the order in which one set's changes are handled.
const (
	// OpRemove: the source does not have the pod any more.
	OpRemove Op = iota + 1
	// OpAdd: a pod that was not there before. A first set without pods comes as
	// an OpAdd of none, so that the handler learns that the source is alive.
	OpAdd
	// OpUpdate: the spec, labels or annotations changed.
	OpUpdate
	// OpDelete: the pod has a deletion timestamp now; it is to end gracefully.
	OpDelete
	// OpReconcile: only the status changed.
	OpReconcile

	opEnd
)

// String returns the name of the operation in capitals, as Kubernetes logs it.
func (o Op) String() string {
	switch o {
	case OpRemove:
		return "REMOVE"
	case OpAdd:
		return "ADD"
	case OpUpdate:
		return "UPDATE"
	case OpDelete:
		return "DELETE"
	case OpReconcile:
		return "RECONCILE"
	default:
		return "UNKNOWN"
	}
}

// Change is one operation on some pods of one source.
type Change struct {
	Op Op
	// Pods are the newest versions; for OpRemove the last ones known. They are
	// shared and must never be changed.
	Pods []*v1.Pod
}

// PodSource is where the Loop learns which pods should run. The Merger of
// package podsource is one.
//
// It keeps the newest complete set per named source. After each newer set an
// EventSource, or a call of Loop.Emit, emits PodsChanged; the Loop then reads the set
// and passes its differences from the handled set to the Handler, as Diff says. Pods and
// Handled are called by one goroutine, concurrently with the arrival of sets.
type PodSource interface {
	// Pods returns the newest complete set of a source; false as long as there was
	// none. Reading changes nothing. Each pod has a name and a UID that no other pod
	// of the set has. The slice is the caller's; the pods are shared and never
	// change: a newer version of a pod is another object.
	Pods(source string) (pods []*v1.Pod, delivered bool)
	// Handled tells that all of a set of the source has been handled, each time that
	// a set is. From the first time on the source counts as ready: only the source
	// knows whom else it waits for.
	Handled(source string)
}

// Sync asks for a pod to be synced.
type Sync struct {
	// UID is the pod's, as the event had it: it may be unknown to the handler,
	// and it may be a mirror pod's.
	UID types.UID
	// Kinds are all reasons since the last time.
	Kinds Kinds
}

// PodHandler handles what changed about the desired pods. Its methods are called
// by one goroutine, one at a time; they hand work on and return quickly. ctx is
// done when the agent stops. The pods are shared and must never be changed.
//
// After a panic the pods of the call come again, one by one, and those over which
// it panics again come later. So a pod may come twice.
type PodHandler interface {
	// HandlePodAdditions handles OpAdd. The slice may be empty.
	HandlePodAdditions(ctx context.Context, pods []*v1.Pod)
	// HandlePodUpdates handles OpUpdate and OpDelete.
	HandlePodUpdates(ctx context.Context, pods []*v1.Pod)
	// HandlePodRemoves handles OpRemove.
	HandlePodRemoves(ctx context.Context, pods []*v1.Pod)
	// HandlePodReconcile handles OpReconcile.
	HandlePodReconcile(ctx context.Context, pods []*v1.Pod)
}

// UpkeepHandler keeps known pods going. It is called like a PodHandler, by the
// same goroutine.
type UpkeepHandler interface {
	// HandlePodSyncs makes pods sync. Unknown UIDs are ignored.
	HandlePodSyncs(ctx context.Context, syncs []Sync)
	// HandlePodCleanups compares what should be there with what is, and removes
	// what is left over. An error is logged and shown in the Loop's status; the
	// next period tries again.
	HandlePodCleanups(ctx context.Context) error
}

// Handler is everything the Loop calls. NewHandler returns the usual one.
type Handler interface {
	PodHandler
	UpkeepHandler
}

package syncloop

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Op is an operation on pods.
type Op uint8

// The operations, in the order in which the changes of one set are handled.
const (
	// OpRemove: the source no longer has the pod.
	OpRemove Op = iota + 1
	// OpAdd: the pod is new. An empty first set is passed as an OpAdd without pods, so that the
	// handler sees that the source is ready.
	OpAdd
	// OpUpdate: the spec, labels or annotations changed.
	OpUpdate
	// OpDelete: the pod got a deletion timestamp and must end gracefully.
	OpDelete
	// OpReconcile: only the status changed.
	OpReconcile

	opEnd
)

// String returns the name of the operation in capitals, as in the logs of Kubernetes.
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

// Change is one operation on pods of one source.
type Change struct {
	Op Op
	// Pods are the newest versions, or for OpRemove the last versions. They are shared and must
	// not be changed.
	Pods []*v1.Pod
}

// PodSource provides the desired pods. The Merger of package podsource implements it.
//
// It keeps the newest complete set of each named source. After each newer set an EventSource, or a
// call of Loop.Emit, emits PodsChanged. The Loop then reads the set and passes its differences
// from the handled set to the Handler (see Diff). One goroutine calls Pods and Handled,
// concurrently with the arrival of sets.
type PodSource interface {
	// Pods returns the newest complete set of a source, or false before the first set. It has no
	// side effect. Each pod has a name, and a UID that is unique in the set. The caller owns the
	// slice. The pods are shared and immutable: a newer version of a pod is another object.
	Pods(source string) (pods []*v1.Pod, delivered bool)
	// Handled is called each time a complete set of the source has been handled. The source counts
	// as ready from the first call on, as far as the Loop is concerned; the PodSource may wait for
	// further sources.
	Handled(source string)
}

// Sync requests a sync of one pod.
type Sync struct {
	// UID is the pod's UID from the event. The handler may not have this pod, and it may be a
	// mirror pod.
	UID types.UID
	// Kinds are all reasons since the previous sync request.
	Kinds Kinds
}

// PodHandler handles changes of the desired pods. One goroutine calls its methods, one at a time.
// They must return quickly and pass long work on. ctx is done when the agent stops. The pods are
// shared and must not be changed.
//
// After a panic the Loop repeats the call for each pod separately, and retries pods that panic
// again later. So a pod may be passed twice.
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

// UpkeepHandler maintains existing pods. The goroutine that calls the PodHandler calls it, too.
type UpkeepHandler interface {
	// HandlePodSyncs makes pods sync. Unknown UIDs are ignored.
	HandlePodSyncs(ctx context.Context, syncs []Sync)
	// HandlePodCleanups compares desired and actual state and removes leftovers. An error is
	// logged and shown in the Loop's Status; the next period retries.
	HandlePodCleanups(ctx context.Context) error
}

// Handler is the complete interface that the Loop calls. NewHandler returns the usual one.
type Handler interface {
	PodHandler
	UpkeepHandler
}

package syncloop

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Kind says why something became dirty.
type Kind uint8

// The kinds of events.
const (
	// PodsChanged: a source of pods has a newer set. Source names it.
	PodsChanged Kind = iota + 1
	// PodDirty: look at this pod again. An observer of the runtime (PLEG) says so.
	PodDirty
	// ContainerDied: look at this pod again, and its dead containers may be
	// pruned.
	ContainerDied
	// ContainerRemoved: nothing is done. It exists so that an observer's events
	// can be passed on one to one.
	ContainerRemoved
	// SyncDue: a pod's own timer ran out (retry, resync, deadline).
	SyncDue
	// LivenessFailed: a liveness probe failed for good.
	LivenessFailed
	// LivenessPassed: nothing is done, as with ContainerRemoved.
	LivenessPassed
	// ReadinessChanged: a readiness probe changed its mind. The emitter records
	// the new value where SyncPod finds it before it emits.
	ReadinessChanged
	// StartupChanged: a startup probe changed its mind; as ReadinessChanged.
	StartupChanged
	// ResourcesChanged: the devices or resources allocated to a pod changed.
	ResourcesChanged
	// Housekeeping: somebody has left something to clean up; do not wait for
	// the period.
	Housekeeping

	kindEnd
)

var kindNames = [kindEnd]string{
	PodsChanged:      "pods changed",
	PodDirty:         "pod dirty",
	ContainerDied:    "container died",
	ContainerRemoved: "container removed",
	SyncDue:          "sync due",
	LivenessFailed:   "liveness failed",
	LivenessPassed:   "liveness passed",
	ReadinessChanged: "readiness changed",
	StartupChanged:   "startup changed",
	ResourcesChanged: "resources changed",
	Housekeeping:     "housekeeping",
}

// String returns the kind in words.
func (k Kind) String() string {
	if k == 0 || k >= kindEnd {
		return "unknown"
	}
	return kindNames[k]
}

// syncs tells whether an event of this kind makes its pod sync.
func (k Kind) syncs() bool {
	switch k {
	case PodDirty, ContainerDied, SyncDue, LivenessFailed, ReadinessChanged, StartupChanged, ResourcesChanged:
		return true
	default:
		return false
	}
}

// Kinds is a set of kinds.
type Kinds uint32

// With returns the set with one kind more.
func (s Kinds) With(k Kind) Kinds { return s | 1<<k }

// Has tells whether the set contains a kind.
func (s Kinds) Has(k Kind) bool { return s&(1<<k) != 0 }

// String lists the kinds, separated by commas.
func (s Kinds) String() string {
	var names []string
	for k := Kind(1); k < kindEnd; k++ {
		if s.Has(k) {
			names = append(names, k.String())
		}
	}
	return strings.Join(names, ", ")
}

// Event says what became dirty, never what happened to it: whoever handles it
// looks for itself. So events of one kind for one pod are one event.
type Event struct {
	Kind Kind
	// UID is the pod, for all kinds but PodsChanged and Housekeeping. The UID of
	// a mirror pod stands for its static pod.
	UID types.UID
	// Source is the name of the source of pods, for PodsChanged.
	Source string
}

// EventSource produces events: an observer of the runtime, probes, a source of
// pods, a timer.
//
// Run blocks until ctx is done and has then stopped everything it started.
// emit never blocks, may be called from several goroutines, and may still be
// called, to no effect that matters, after Run has returned. When Run returns an
// error before ctx is done, the Loop reports it and runs it again after a pause;
// it then emits everything that may have become dirty since. When it returns
// nil it has nothing more to say and is not run again.
type EventSource interface {
	Run(ctx context.Context, emit func(Event)) error
}

// EventSourceFunc is a function that is an EventSource.
type EventSourceFunc func(ctx context.Context, emit func(Event)) error

// Run calls f.
func (f EventSourceFunc) Run(ctx context.Context, emit func(Event)) error { return f(ctx, emit) }

package syncloop

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Kind is the reason of an event.
type Kind uint8

// The kinds of events.
const (
	// PodsChanged: a source of pods has a newer set. Event.Source is its name.
	PodsChanged Kind = iota + 1
	// PodDirty: the pod may have changed. Emitted by an observer of the runtime (PLEG).
	PodDirty
	// ContainerDied: as PodDirty; dead containers of the pod may be pruned.
	ContainerDied
	// ContainerRemoved has no effect. It exists so that an observer can forward all its events.
	ContainerRemoved
	// SyncDue: a timer of the pod expired (retry, resync, deadline).
	SyncDue
	// LivenessFailed: a liveness probe reached its failure threshold.
	LivenessFailed
	// LivenessPassed has no effect, as ContainerRemoved.
	LivenessPassed
	// ReadinessChanged: the result of a readiness probe changed. The emitter first stores the new
	// value where SyncPod reads it.
	ReadinessChanged
	// StartupChanged: the result of a startup probe changed; otherwise as ReadinessChanged.
	StartupChanged
	// ResourcesChanged: the devices or resources allocated to a pod changed.
	ResourcesChanged
	// Housekeeping: there are leftovers; housekeeping runs without waiting for its period.
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

// String returns the kind in lower case, or "unknown".
func (k Kind) String() string {
	if k == 0 || k >= kindEnd {
		return "unknown"
	}
	return kindNames[k]
}

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

// With returns the set with k added.
func (s Kinds) With(k Kind) Kinds { return s | 1<<k }

// Has reports whether the set contains k.
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

// Event marks a pod or a source as dirty. It has no payload: the handler reads the current state.
// So all events of one kind for one pod are equal.
type Event struct {
	Kind Kind
	// UID is the pod, for all kinds but PodsChanged and Housekeeping. The UID of a mirror pod
	// stands for its static pod.
	UID types.UID
	// Source is the name of the source of pods, for PodsChanged.
	Source string
}

// EventSource produces events. Examples are an observer of the runtime, probes, a source of pods,
// and a timer.
//
// Run blocks until ctx is done and stops everything that it started before it returns. emit never
// blocks and is safe for concurrent use. Calls of emit after Run has returned are harmless. If Run
// returns an error before ctx is done, the Loop logs it and calls Run again after a pause; Run
// then emits everything that may have become dirty in the meantime. If Run returns nil, it is not
// called again.
type EventSource interface {
	Run(ctx context.Context, emit func(Event)) error
}

// EventSourceFunc is a function that implements EventSource.
type EventSourceFunc func(ctx context.Context, emit func(Event)) error

// Run calls f.
func (f EventSourceFunc) Run(ctx context.Context, emit func(Event)) error { return f(ctx, emit) }

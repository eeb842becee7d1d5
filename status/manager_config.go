package status

import (
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ManagerConfig configures a Manager. The zero value is one that keeps statuses
// and writes them nowhere. The functions are called without a lock, from several
// goroutines, answer from memory, and must not block.
type ManagerConfig struct {
	// Sink is where statuses are written to. nil means nowhere: the Manager is
	// only the memory of them, as for a node without an API server.
	Sink Sink

	// Pod returns the newest pod of a UID, nil if there is none. nil, and for pods
	// that it does not know, means the pod that was handed in last.
	Pod func(types.UID) *v1.Pod
	// Mirror returns the mirror pod of a static pod by the latter's UID, nil while
	// there is none. The field being nil means that static pods have no mirrors:
	// they are written under their own UIDs, as to a sink that is no API server.
	Mirror func(types.UID) *v1.Pod
	// TranslateUID returns the UID of the static pod that has this mirror, and
	// every other UID as it is. nil means that all stay as they are.
	TranslateUID func(types.UID) types.UID
	// MayStillRun tells whether containers of a pod may still run, or hold
	// resources. Until it says no, a terminal phase is kept back. It is asked at
	// each write, and for those kept back at each Set, Change and Terminate of the
	// pod, and at every Resync. nil means never.
	MayStillRun func(types.UID) bool

	// MaxParallelWrites is how many pods are written at a time. Zero means 16.
	MaxParallelWrites int
	// WriteTimeout is the deadline of one call of the Sink. Zero means 10 s.
	WriteTimeout time.Duration
	// Resync is the period in which statuses that the sink turned out not to have
	// are written anew, and the longest pause before a failed write is repeated.
	// Zero means 10 s.
	Resync time.Duration
	// RetryBackoff is the pause after a first failed write. It doubles with each
	// further one up to Resync, and is spread by a quarter. Zero means 200 ms.
	RetryBackoff time.Duration
	// ShutdownTimeout is how long Run waits, when it ends, for calls that ignore
	// their context. Zero means 10 s.
	ShutdownTimeout time.Duration

	// Changed is told, by whoever changed it, that the status of a pod is another
	// one now; Get returns it. It is called after the change and may come late or
	// too often. May be nil.
	Changed func(types.UID)
	// Metrics are told what happens.
	Metrics ManagerMetrics
	// Logger receives failures of writes and refused statuses. nil means none.
	Logger *slog.Logger
}

// ManagerMetrics are callbacks, each of which may be nil. They must not block.
type ManagerMetrics struct {
	// Synced is told after a successful write how long the sink was behind:
	// since the first change that it did not have
	// (kubelet_pod_status_sync_duration_seconds).
	Synced func(behind time.Duration)
	// Terminated is told of each container that has terminated, whose kind is
	// "init_containers", "containers" or "ephemeral_containers"
	// (kubelet_terminated_containers_total).
	Terminated func(kind string, ended *v1.ContainerStateTerminated)
	// Call is told of each call of the Sink ("get", "patch" or "delete").
	Call func(call string, took time.Duration, err error)
}

func (c ManagerConfig) withDefaults() (ManagerConfig, error) {
	for _, d := range []struct {
		field string
		value *time.Duration
		zero  time.Duration
	}{
		{"WriteTimeout", &c.WriteTimeout, 10 * time.Second},
		{"Resync", &c.Resync, 10 * time.Second},
		{"RetryBackoff", &c.RetryBackoff, 200 * time.Millisecond},
		{"ShutdownTimeout", &c.ShutdownTimeout, 10 * time.Second},
	} {
		switch {
		case *d.value < 0:
			return c, fmt.Errorf("status: ManagerConfig.%s is negative: %v", d.field, *d.value)
		case *d.value == 0:
			*d.value = d.zero
		}
	}
	switch {
	case c.MaxParallelWrites < 0:
		return c, fmt.Errorf("status: ManagerConfig.MaxParallelWrites is negative: %d", c.MaxParallelWrites)
	case c.MaxParallelWrites == 0:
		c.MaxParallelWrites = 16
	}
	if c.RetryBackoff > c.Resync {
		return c, fmt.Errorf("status: ManagerConfig.RetryBackoff: %v is above Resync %v", c.RetryBackoff, c.Resync)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

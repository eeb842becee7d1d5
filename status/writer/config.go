package writer

import (
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/required"
	"github.com/podwright/podwright/status"
)

// NamedSink is one of those that a Writer writes to.
type NamedSink struct {
	// Name tells the sink from the others, in logs, errors and Explain. Required.
	Name string
	// Sink is where statuses are written to. One that is a status.Receiver as well,
	// such as a status.SinkFunc, is handed them as they are. Required.
	Sink status.Sink
	// Mirrors tells that static pods are written to their mirrors, as to an API
	// server, and wait until there is one; it takes Config.Mirror. Otherwise they
	// are written under their own UIDs. It means nothing to a Receiver.
	Mirrors bool
	// Origin tells that pods that are not static come from this sink, as from an API
	// server, so that the first write takes their own status for what it has, and need
	// not ask. What has changed there since shows in the answer, and in what is observed.
	Origin bool
}

// Config configures a Writer. The zero value is one that keeps statuses and writes
// them nowhere. The functions are called without a lock, from several goroutines,
// answer from memory, and must not block.
type Config struct {
	// Sinks are where statuses are written to. None waits for another. Empty means
	// nowhere: the Writer is only the memory of them.
	Sinks []NamedSink

	// Pod returns the newest pod of a UID, nil if there is none. nil, and for pods
	// that it does not know, means the pod that was handed in last.
	Pod func(types.UID) *v1.Pod
	// Mirror returns the mirror pod of a static pod by the latter's UID, nil while
	// there is none. The field being nil means that static pods have no mirrors.
	Mirror func(types.UID) *v1.Pod
	// TranslateUID returns the UID of the static pod that has this mirror, and
	// every other UID as it is. nil means that all stay as they are.
	TranslateUID func(types.UID) types.UID
	// MayStillRun tells whether containers of a pod may still run, or hold
	// resources. Until it says no, a terminal phase is kept back from all sinks but
	// Receivers. It is asked at each write, and for those kept back at each Set,
	// Change and Terminate of the pod, and at every Resync. nil means never.
	MayStillRun func(types.UID) bool

	// MaxParallelWrites is how many pods are written at a time, to each sink. Zero
	// means 16.
	MaxParallelWrites int
	// WriteTimeout is the deadline of one call of a sink. Zero means 10 s.
	WriteTimeout time.Duration
	// Resync is the period in which statuses that a sink turned out not to have
	// are written anew, and the longest pause before a failed write is repeated.
	// Zero means 10 s.
	Resync time.Duration
	// RetryBackoff is the pause after a first failed write. It doubles with each
	// further one up to Resync, and is spread by a quarter. Zero means 200 ms.
	RetryBackoff time.Duration
	// ShutdownTimeout is how long Run waits, when it ends, for Receivers to take
	// what they do not have yet, and for calls that ignore their context. Zero means
	// 10 s.
	ShutdownTimeout time.Duration

	// Changed is told, by whoever changed it, that the status of a pod is another
	// one now; Get returns it. It is called after the change and may come late or
	// too often. May be nil.
	Changed func(types.UID)
	// Metrics are told what happens.
	Metrics Metrics
	// Logger receives failures of writes and refused statuses. nil means none.
	Logger *slog.Logger
}

// Metrics are callbacks, each of which may be nil. They must not block.
type Metrics struct {
	// Synced is told after a successful write how long the sink was behind:
	// since the first change that it did not have
	// (kubelet_pod_status_sync_duration_seconds).
	Synced func(sink string, behind time.Duration)
	// Terminated is told of each container that has terminated, whose kind is
	// "init_containers", "containers" or "ephemeral_containers"
	// (kubelet_terminated_containers_total).
	Terminated func(kind string, ended *v1.ContainerStateTerminated)
	// Call is told of each call of a sink ("get", "patch", "delete" or "receive").
	Call func(sink, call string, took time.Duration, err error)
}

func (c Config) withDefaults() (Config, error) {
	if err := c.checkSinks(); err != nil {
		return c, err
	}
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
			return c, fmt.Errorf("writer: Config.%s is negative: %v", d.field, *d.value)
		case *d.value == 0:
			*d.value = d.zero
		}
	}
	switch {
	case c.MaxParallelWrites < 0:
		return c, fmt.Errorf("writer: Config.MaxParallelWrites is negative: %d", c.MaxParallelWrites)
	case c.MaxParallelWrites == 0:
		c.MaxParallelWrites = 16
	}
	if c.RetryBackoff > c.Resync {
		return c, fmt.Errorf("writer: Config.RetryBackoff: %v is above Resync %v", c.RetryBackoff, c.Resync)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func (c *Config) checkSinks() error {
	seen := map[string]bool{}
	for i, s := range c.Sinks {
		switch {
		case s.Name == "":
			return fmt.Errorf("writer: Config.Sinks[%d].Name is required", i)
		case seen[s.Name]:
			return fmt.Errorf("writer: Config.Sinks[%d].Name: %q is taken", i, s.Name)
		case s.Mirrors && c.Mirror == nil:
			return fmt.Errorf("writer: Config.Sinks[%d].Mirrors takes Config.Mirror", i)
		}
		if err := required.Field(fmt.Sprintf("writer: Config.Sinks[%d].Sink", i), s.Sink); err != nil {
			return err
		}
		seen[s.Name] = true
	}
	return nil
}

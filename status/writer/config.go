package writer

import (
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
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
	// Change and Terminate of the pod, and every 10 s. nil means never.
	MayStillRun func(types.UID) bool

	// ShutdownTimeout is how long Run waits, when it ends, for Receivers to take
	// what they do not have yet, and for calls that ignore their context. Zero means
	// 10 s.
	ShutdownTimeout time.Duration

	// OnChange is called after a change of a pod's status; Get returns the new one.
	// Calls are concurrent, by the goroutine that made the change, and may be late or
	// too many. Optional.
	OnChange func(types.UID)
	// Metrics are optional callbacks for counters and histograms.
	Metrics Metrics
	// Logger receives failures of writes and refused statuses. nil means none.
	Logger *slog.Logger

	maxWrites int // replaces maxParallelWrites in tests
}

// Metrics are callbacks, each of which may be nil. They must not block.
type Metrics struct {
	// OnSynced is called after a successful write with the age of the oldest change in it
	// (kubelet_pod_status_sync_duration_seconds).
	OnSynced func(sink string, behind time.Duration)
	// OnTerminated is called for each container that has terminated. The kind is
	// "init_containers", "containers" or "ephemeral_containers"
	// (kubelet_terminated_containers_total).
	OnTerminated func(kind string, ended *v1.ContainerStateTerminated)
	// OnCall is called after each call of a sink ("get", "patch", "delete" or "receive").
	OnCall func(sink, call string, took time.Duration, err error)
}

// Limits and periods that are the same for every sink.
const (
	// maxParallelWrites is the number of pods that are written to a sink at a time.
	maxParallelWrites = 16
	// callTimeout is the deadline of one call of a sink.
	callTimeout = 10 * time.Second
	// resync is the delay after which a status is written again that a sink turned out
	// not to have, and the longest pause before a failed call is repeated.
	resync = 10 * time.Second
	// firstPause is the pause after a first failed call. It doubles with each further
	// failure up to resync.
	firstPause = 200 * time.Millisecond
	// absentPause is the longest pause while the sink has no such pod.
	absentPause = 6 * resync
)

func (c Config) withDefaults() (Config, error) {
	f := fields.Of("writer: Config")
	seen := map[string]bool{}
	for i, s := range c.Sinks {
		field := fmt.Sprintf("Sinks[%d]", i)
		f.Required(field+".Name", s.Name)
		f.Required(field+".Sink", s.Sink)
		if seen[s.Name] {
			f.Refuse("%s.Name: %q is taken", field, s.Name)
		}
		if s.Mirrors && c.Mirror == nil {
			f.Refuse("%s.Mirrors takes Config.Mirror", field)
		}
		seen[s.Name] = true
	}
	fields.Number(f, "ShutdownTimeout", &c.ShutdownTimeout, 10*time.Second)
	fields.Default(&c.maxWrites, maxParallelWrites)
	fields.Logger(&c.Logger)
	return c, f.Err()
}

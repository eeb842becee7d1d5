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

// NamedSink is a sink of a Writer.
type NamedSink struct {
	// Name identifies the sink in logs, errors and Explain. It must be unique. Required.
	Name string
	// Sink is the destination. A sink that implements status.Receiver, such as a status.SinkFunc,
	// receives whole statuses. Each call has a context of 10 s, and a panic counts as its error.
	// Required.
	Sink status.Sink
	// Mirrors makes the Writer write static pods to their mirror pods, as for an API server, and
	// wait for a missing mirror. It requires Config.Mirror. Otherwise static pods are written
	// under their own UIDs. It has no effect for a Receiver.
	Mirrors bool
	// Origin is true if the pods that are not static come from this sink, as from an API server.
	// The first write then uses the pod's own status as the sink's status, without a Get. Later
	// changes at the sink appear in the result of the write and in observations.
	Origin bool
}

// Config configures a Writer. The zero value configures a Writer that only stores statuses. The
// functions are called concurrently and without a lock. They must return from memory and not
// block.
type Config struct {
	// Sinks are the destinations of statuses. They do not wait for each other. Optional: without
	// sinks the Writer only stores statuses.
	Sinks []NamedSink

	// Pod returns the newest pod of a UID, or nil. Optional: without it, and for a nil result,
	// the Writer uses the pod of the last Set or Restore.
	Pod func(types.UID) *v1.Pod
	// Mirror returns the mirror pod of a static pod by the static pod's UID, or nil without one.
	// Optional: without it static pods have no mirror pods.
	Mirror func(types.UID) *v1.Pod
	// TranslateUID returns the UID of the static pod with this mirror pod, and every other UID
	// unchanged. Optional: without it all UIDs stay unchanged.
	TranslateUID func(types.UID) types.UID
	// MayStillRun reports whether containers of a pod may still run or use resources. While it
	// returns true, a terminal phase is written only to Receivers. It is called before each
	// write. For a pod with an unwritten terminal phase it is also called after each Set, Change
	// and Terminate, and every 10 s. Optional: without it terminal phases are written at once.
	MayStillRun func(types.UID) bool

	// ShutdownTimeout bounds the wait of Run, at its end, for Receivers to receive their last
	// statuses and for calls that ignore their context. Default: 10 s.
	ShutdownTimeout time.Duration

	// OnChange is called after a change of a pod's status; Get returns the new one. Calls are
	// concurrent, in the goroutine of the change, and may be late or superfluous. Optional.
	OnChange func(types.UID)
	// Metrics are callbacks for counters and histograms. Optional.
	Metrics Metrics
	// Logger receives failed writes and rejected statuses. Default: no log.
	Logger *slog.Logger

	maxWrites int // replaces maxParallelWrites in tests
}

// Metrics are optional callbacks for counters and histograms. They must not block.
type Metrics struct {
	// OnSynced is called after a successful write, with the age of the oldest change in it
	// (kubelet_pod_status_sync_duration_seconds).
	OnSynced func(sink string, behind time.Duration)
	// OnTerminated is called for each container that has terminated. The kind is
	// "init_containers", "containers" or "ephemeral_containers"
	// (kubelet_terminated_containers_total).
	OnTerminated func(kind string, ended *v1.ContainerStateTerminated)
	// OnCall is called after each call of a sink ("get", "patch", "delete" or "receive").
	OnCall func(sink, call string, took time.Duration, err error)
}

// Limits and periods of every sink.
const (
	// maxParallelWrites is the maximum number of concurrent writes to a sink.
	maxParallelWrites = 16
	callTimeout       = 10 * time.Second
	// resync is the delay before a status is written again after the sink has lost it, and the
	// longest pause before a retry.
	resync = 10 * time.Second
	// firstPause is the pause after a first failed call. It doubles with each further failure up
	// to resync.
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
			f.Refuse("%s.Name: %q is used by an earlier sink", field, s.Name)
		}
		if s.Mirrors && c.Mirror == nil {
			f.Refuse("%s.Mirrors requires Config.Mirror", field)
		}
		seen[s.Name] = true
	}
	fields.Number(f, "ShutdownTimeout", &c.ShutdownTimeout, 10*time.Second)
	fields.Default(&c.maxWrites, maxParallelWrites)
	fields.Logger(&c.Logger)
	return c, f.Err()
}

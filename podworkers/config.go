package podworkers

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/fields"
)

// Config configures Workers. Only Syncer is required. A panic in OnDue, OnTransition or OnCall
// is logged.
type Config struct {
	// Syncer does the work. If it also implements OrphanSyncer, pods without a spec can be
	// killed. Required.
	Syncer PodSyncer

	// ResyncInterval is the pause after a successful sync until the next call. Up to half of it
	// is added at random. Default: 1 min.
	ResyncInterval time.Duration
	// RetryBackoff is the pause after a failed call. Up to half of it is added at random.
	// Default: 10 s.
	RetryBackoff time.Duration
	// Jitter returns numbers in [0, 1) that spread the pauses. It is called under a lock and
	// must not call back. Default: random numbers.
	Jitter func() float64
	// ShutdownTimeout bounds the wait of an ending Run for calls that ignore their context.
	// Default: 10 s.
	ShutdownTimeout time.Duration

	// OnDue is called when a pod is due for a retry or a resync. The owner of the desired pods
	// then sends the newest pod with UpdatePod(UpdateSync). It is called without locks, from one
	// goroutine, and must not block. Optional: without it the workers repeat the last update.
	OnDue func(uid types.UID)
	// TerminalPodStopped reports whether all containers of a pod are proven stopped. UpdatePod
	// calls it, without locks, for a new pod whose phase is already final. If it returns true,
	// only SyncTerminatedPod is called. It must return from memory. Optional: without it
	// SyncTerminatingPod is called as well.
	TerminalPodStopped func(uid types.UID) bool

	// OnTransition is called after every change of state, in order, without locks and from one
	// goroutine. It must not block. Optional.
	OnTransition func(Transition)
	// OnCall is called after every call of the Syncer, without locks, from the goroutine of the
	// call and so in parallel for several pods. It must not block: the pod's next call waits for
	// it. Optional.
	OnCall func(CallDone)
	// OnTrace is called with every input and decision of the workers, in the exact order. It is
	// called under a lock, must be quick and must not call back. It is for tests (see
	// podworkerstest) and flight recorders. Optional.
	OnTrace func(TraceEvent)
	// Span is called before each call of the syncer and returns the context of that call; end is
	// called with the call's error. Names are syncPod, syncTerminatingPod, syncTerminatingOrphan
	// and syncTerminatedPod. Attributes are k8s.pod ("namespace/name"), k8s.pod.uid,
	// k8s.pod.name, k8s.namespace.name, and for syncPod k8s.pod.update_type. Optional.
	Span func(ctx context.Context, name string, attributes ...slog.Attr) (_ context.Context, end func(err error))
	// Event records Kubernetes events (ExceededGracePeriod). Optional.
	Event podwright.EventFunc
	// Logger receives failures of calls. Default: no log.
	Logger *slog.Logger
}

// Transition is one change of a pod's state.
type Transition struct {
	UID             types.UID
	Namespace, Name string
	From, To        State
	At              time.Time
}

// CallDone is the record of a finished call of the Syncer.
type CallDone struct {
	UID  types.UID
	Call Call
	// Type is the type of the newest update of the call. It is empty for a pod without a spec.
	Type UpdateType
	// Pod is the input of the call. It is nil for a pod without a spec.
	Pod *v1.Pod
	// Seen is the time at which the oldest change of the call was seen, zero without a change.
	// Began and Ended are the times of the call.
	Seen, Began, Ended time.Time
	// Err is the error of the call, or nil.
	Err error
}

// networkRetry is the shortest pause after ErrNetworkNotReady.
const networkRetry = time.Second

func (c Config) withDefaults() (Config, error) {
	f := fields.Of("podworkers: Config")
	f.Required("Syncer", c.Syncer)
	fields.Number(f, "ResyncInterval", &c.ResyncInterval, time.Minute)
	fields.Number(f, "RetryBackoff", &c.RetryBackoff, 10*time.Second)
	fields.Number(f, "ShutdownTimeout", &c.ShutdownTimeout, 10*time.Second)
	fields.Default(&c.Jitter, rand.Float64)
	fields.Logger(&c.Logger)
	return c, f.Err()
}

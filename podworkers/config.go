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

// Config configures Workers. Only Syncer is required.
type Config struct {
	// Syncer does the work. If it is an OrphanSyncer too, pods that only the
	// runtime knows can be killed. Required.
	Syncer PodSyncer

	// ResyncInterval is the pause after a clean sync until the pod is looked at
	// again, in [d, 1.5d). Zero means 1 min.
	ResyncInterval time.Duration
	// RetryBackoff is the pause after a failed call, in [d, 1.5d). Zero means 10 s.
	RetryBackoff time.Duration
	// Jitter returns numbers in [0, 1) that spread the pauses. It is called under
	// a lock and must not call back. Nil means random numbers.
	Jitter func() float64
	// ShutdownTimeout is how long Run waits, when it ends, for calls that ignore
	// their context. Zero means 10 s.
	ShutdownTimeout time.Duration

	// OnDue is called when a pod is due for a retry or a resync, so that the owner
	// of the desired pods can send the newest one with UpdatePod(UpdateSync). It
	// is called without locks, from one goroutine, and must not block. Nil means
	// that the workers repeat the last update themselves.
	OnDue func(uid types.UID)
	// TerminalPodStopped is asked when a pod is seen for the first time and its
	// phase is final already: is it proven that nothing of it runs? Then only
	// SyncTerminatedPod is called. It is called by UpdatePod, without locks, and
	// answers from memory. Nil means no.
	TerminalPodStopped func(uid types.UID) bool

	// OnTransition is told about every change of state, in order. It is called
	// without locks, from one goroutine, and must not block. May be nil.
	OnTransition func(Transition)
	// OnCall is told about every call of the Syncer that has ended. It is called
	// without locks, from the goroutine of the call, so for several pods at a time,
	// and must not block: the pod's next call waits for it. May be nil.
	OnCall func(CallDone)
	// OnTrace is called with everything that goes into the workers and everything they
	// decide, in the exact order. It is called under a lock, must be quick and must
	// not call back: it is for tests (see podworkerstest) and flight recorders. May
	// be nil.
	OnTrace func(TraceEvent)
	// Span is called before each call of the syncer, which gets the context that it returns; end
	// is called with the call's error. Names are syncPod, syncTerminatingPod, syncTerminatingOrphan
	// and syncTerminatedPod; attributes say which pod: k8s.pod ("namespace/name"), k8s.pod.uid,
	// k8s.pod.name, k8s.namespace.name, and of a syncPod k8s.pod.update_type. May be nil.
	Span func(ctx context.Context, name string, attributes ...slog.Attr) (_ context.Context, end func(err error))
	// Event records Kubernetes events (ExceededGracePeriod). May be nil.
	Event podwright.EventFunc
	// Logger receives failures of calls. Nil means none.
	Logger *slog.Logger
}

// Transition is one change of a pod's state.
type Transition struct {
	UID             types.UID
	Namespace, Name string
	From, To        State
	At              time.Time
}

// CallDone is a call of the Syncer that has ended.
type CallDone struct {
	UID  types.UID
	Call Call
	// Type is that of the newest update that the call has served; empty for a pod of
	// which only the runtime knows.
	Type UpdateType
	// Pod is what the call acted on; nil for a pod of which only the runtime knows.
	Pod *v1.Pod
	// Seen is when the oldest change that the call has served was seen, zero if it
	// served none; Began is when the call began, and Ended when it had ended.
	Seen, Began, Ended time.Time
	// Err is how it failed; nil means that it did not.
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

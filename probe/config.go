package probe

import (
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/fields"
)

// Config configures a Manager. Only Probers and Status are required. A panic in Status, OnChange,
// Event or Metrics is logged; the affected call has no effect.
type Config struct {
	// Probers execute the probes, by handler. AddPod rejects a probe whose handler is missing
	// here. At least one is required.
	Probers map[Handler]Prober
	// Status returns the newest computed status of a pod, or nil without one. It is called
	// concurrently, without locks, before and during each execution, and must return from memory.
	// Neither side changes the returned status. Required.
	Status func(uid types.UID) *v1.PodStatus
	// OnChange is called after a stored result has changed, and for the first result of each
	// instance of a container. One goroutine calls it, without locks, one call at a time. It
	// should not block: meanwhile probes continue, but only the newest result of each probe is
	// kept for it. It is not called for dropped results. Optional.
	OnChange func(Change)

	// Timing replaces period and timeout of a probe, to allow less than the whole seconds of a
	// pod's spec. AddPod calls it, without locks, and uses its result when it adds the probe.
	// Optional: without it the spec applies.
	Timing func(pod *v1.Pod, c *v1.Container, t Type) Timing
	// ShutdownTimeout bounds the wait of Run, at its end, for probes and callbacks that ignore
	// their context. Default: 10 s.
	ShutdownTimeout time.Duration

	// Event records Kubernetes events: Unhealthy for a probe that fails or cannot be executed,
	// ProbeWarning for a success with a warning. It is called concurrently, without locks, and
	// must not block, because the probe keeps its place in the budget during the call. Optional.
	Event podwright.EventFunc
	// Metrics are callbacks for counters and histograms. Optional.
	Metrics Metrics
	// Logger receives changed results, errors and panics. Default: no log.
	Logger *slog.Logger

	// agentStart and budgets have their default values except in tests.
	agentStart time.Time
	budgets    map[Handler]int
}

// Timing is the period and the timeout of a probe.
type Timing struct {
	// Period is the time between the starts of two executions, at least 10 ms. Default:
	// periodSeconds of the spec.
	Period time.Duration
	// Timeout bounds each try of an execution, at least 1 ms. Default: timeoutSeconds of the
	// spec.
	Timeout time.Duration
}

const (
	minPeriod  = 10 * time.Millisecond
	minTimeout = time.Millisecond
)

// Change is a stored result that has changed.
type Change struct {
	UID types.UID
	Stored
}

// Stored is the effective result of a probe, with thresholds applied. It is valid for one
// instance of a container only.
type Stored struct {
	Container string `json:"container"`
	// ContainerID is the ID of the instance, "<runtime>://<id>" as in the pod's status.
	ContainerID string `json:"containerID"`
	Type        Type   `json:"type"`
	// Result is Success or Failure.
	Result Verdict `json:"result"`
}

// Metrics are optional callbacks for counters and histograms. They are called one at a time, must
// not block, and must not call the Manager.
type Metrics struct {
	// OnProbe is called after each execution that was not interrupted by the end of its pod or of
	// Run.
	OnProbe func(Probed)
	// OnRemove is called after the last execution of a probe, so that its series can be dropped.
	// No OnProbe for the series follows unless the probe starts again.
	OnRemove func(Series)
}

// Series identifies a probe in metrics.
type Series struct {
	Type           Type
	UID            types.UID
	Namespace, Pod string
	Container      string
}

// Probed is one execution with all its tries.
type Probed struct {
	Series
	Handler Handler
	// Verdict is Unknown if the probe could not be executed.
	Verdict Verdict
	// Took is the duration of the execution.
	Took time.Duration
	// Late is the delay between the scheduled and the actual start.
	Late time.Duration
}

// defaultBudget returns the maximum number of concurrent executions of a handler, or 0 for an
// unknown handler. Each execution takes one goroutine and the resources of its Prober, such as a
// connection or a process in the container.
func defaultBudget(h Handler) int {
	switch h {
	case HTTPGet:
		return 24
	case Exec, TCPSocket, GRPC:
		return 10
	default:
		return 0
	}
}

func (c Config) withDefaults() (Config, error) {
	f := fields.Of("probe: Config")
	f.Required("Status", c.Status)
	if len(c.Probers) == 0 {
		f.Refuse("Probers is required")
	}
	for h, p := range c.Probers {
		f.Required(fmt.Sprintf("Probers[%s]", h), p)
		if defaultBudget(h) == 0 {
			f.Refuse("Probers: %q is not a handler", h)
		}
	}
	fields.Number(f, "ShutdownTimeout", &c.ShutdownTimeout, 10*time.Second)
	fields.Default(&c.agentStart, time.Now())
	fields.Logger(&c.Logger)
	c.guardCallbacks()
	return c, f.Err()
}

func (c *Config) budget(h Handler) int {
	if n := c.budgets[h]; n > 0 {
		return n
	}
	return defaultBudget(h)
}

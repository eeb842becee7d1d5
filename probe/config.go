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

// Config configures a Manager. Only Probers and Status are required. A panic of Status,
// OnChange, Event or Metrics is in the log, and costs that call.
type Config struct {
	// Probers executes the probes, by handler. A probe of a handler that is
	// missing here is refused by AddPod.
	Probers map[Handler]Prober
	// Status returns the newest status computed of a pod, nil when there is none
	// yet. It is called concurrently, without locks, before and with each
	// execution, and must answer from memory. What it returns is shared and never
	// changed by either side. Required.
	Status func(uid types.UID) *v1.PodStatus
	// OnChange is called after a stored result has changed, and for the first result of
	// each instance of a container. One goroutine calls it, without locks, one call at a
	// time. It should not block; while it does, probes continue, and each probe keeps only its
	// newest result for it. It is not called for results that are dropped. Optional.
	OnChange func(Change)

	// Timing replaces period and timeout of a probe, for those who need less than
	// the whole seconds of a pod's spec. AddPod asks it, without locks; what it
	// says when the probe begins counts. nil means that the spec counts.
	Timing func(pod *v1.Pod, c *v1.Container, t Type) Timing
	// ShutdownTimeout is how long Run waits, when it ends, for probes and
	// callbacks that ignore their context. Zero means 10 s.
	ShutdownTimeout time.Duration

	// Event records Kubernetes events: Unhealthy when a probe fails or cannot be
	// carried out, ProbeWarning when it succeeds with a warning. It is called
	// concurrently, without locks, and must not block: the probe keeps its place
	// in the budget until then. May be nil.
	Event podwright.EventFunc
	// Metrics are optional callbacks.
	Metrics Metrics
	// Logger receives results that change, errors and panics. Nil means none.
	Logger *slog.Logger

	// agentStart is the time of New, and budgets the defaults, but in tests.
	agentStart time.Time
	budgets    map[Handler]int
}

// Timing is how often a probe is executed and how long it may take.
type Timing struct {
	// Period is the time from one execution to the next, at least 10 ms. Zero
	// means periodSeconds of the spec.
	Period time.Duration
	// Timeout is how long one execution may take, at least 1 ms. Zero means
	// timeoutSeconds of the spec.
	Timeout time.Duration
}

// Bounds of Timing.
const (
	minPeriod  = 10 * time.Millisecond
	minTimeout = time.Millisecond
)

// Change is a stored result that has changed.
type Change struct {
	UID types.UID
	Stored
}

// Stored is the result of a probe that counts: thresholds are applied. A result
// is about one instance of a container and says nothing of any other.
type Stored struct {
	// Container is the container's name.
	Container string `json:"container"`
	// ContainerID is the instance, "<runtime>://<id>" as in the pod's status.
	ContainerID string `json:"containerID"`
	Type        Type   `json:"type"`
	// Result is Success or Failure.
	Result Verdict `json:"result"`
}

// Metrics are callbacks for counters and histograms. Each may be nil. They are
// called one at a time, must not block, and must not call the Manager.
type Metrics struct {
	// OnProbe is called after each execution, unless the end of its pod or of
	// Run interrupted it.
	OnProbe func(Probed)
	// OnRemove is called after the last execution of a probe, so that its series can be
	// dropped. No OnProbe follows for it, unless the probe begins again.
	OnRemove func(Series)
}

// Series names a probe in metrics.
type Series struct {
	Type           Type
	UID            types.UID
	Namespace, Pod string
	Container      string
}

// Probed is one execution, all tries together.
type Probed struct {
	Series
	Handler Handler
	// Verdict is Unknown when the probe could not be carried out.
	Verdict Verdict
	// Took is how long the execution took.
	Took time.Duration
	// Late is how long after its time it began.
	Late time.Duration
}

// defaultBudget is the number of probes of a handler that are executed at a time, 0 for
// an unknown handler. Each execution takes one goroutine and the resources of its Prober,
// such as a connection or a process in the container.
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
			f.Refuse("Probers: %q is no handler", h)
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

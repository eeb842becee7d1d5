package pleg

import (
	"log/slog"
	"time"

	"github.com/podwright/podwright/internal/fields"
)

// Config configures a PLEG. Only Runtime is required.
type Config struct {
	// Runtime is the observed runtime. If it implements EventStream, its events are used as
	// hints. Required.
	Runtime Runtime
	// RelistPeriod is the pause between lists of all pods. Default: 1 s.
	RelistPeriod time.Duration
	// AdaptiveRelist adapts the pause to the activity of the runtime, for runtimes without
	// events. The pause is a tenth of the time since the last activity, between 100 ms and 5 s,
	// and at least nine times the duration of the list, up to 5 s. An activity causes at most 51
	// lists more than at rest. At most one list runs per 100 ms, and lists shorter than 0.5 s
	// take at most a tenth of the time. An activity is a detected change or a Request. Without
	// AdaptiveRelist the pause is RelistPeriod.
	AdaptiveRelist bool
	// EventedRelistPeriod is the pause while the runtime's events are reliable. Default: 300 s.
	EventedRelistPeriod time.Duration
	// Threshold is the largest age of the last complete list of a healthy PLEG. It must exceed
	// RelistPeriod, and 5 s with AdaptiveRelist. Default: 3 min.
	Threshold time.Duration
	// EventedThreshold is that age while the runtime's events are reliable. It must exceed
	// EventedRelistPeriod. Default: 10 min.
	EventedThreshold time.Duration
	// ShutdownTimeout bounds the wait of an ending Run for calls of the Runtime and callbacks.
	// Default: 10 s.
	ShutdownTimeout time.Duration
	// OnEvent is called with each event, one at a time and in order per pod, on a separate
	// goroutine. It should not block: observation continues meanwhile, up to 1000 events wait,
	// and further ones are merged into one PodSync per pod. A panic in this or another callback
	// is logged, and the event counts as delivered. Events that wait at the end of Run are dropped:
	// the next PLEG reports all pods of its first list. Optional.
	OnEvent func(Event)
	// OnHealth is called when Healthy changes between nil and an error, on the goroutine of
	// OnEvent. Its first argument is nil: the time until the first list is not reported, nor is
	// the end of Run. Optional.
	OnHealth func(error)
	// Metrics are optional callbacks.
	Metrics Metrics
	// Logger receives changes of mode, failed lists and failed inspections. Default: no log.
	Logger *slog.Logger
}

func (c *Config) complete() error {
	f := fields.Of("pleg: Config")
	f.Required("Runtime", c.Runtime)
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"RelistPeriod", &c.RelistPeriod, time.Second},
		{"EventedRelistPeriod", &c.EventedRelistPeriod, 300 * time.Second},
		{"Threshold", &c.Threshold, 3 * time.Minute},
		{"EventedThreshold", &c.EventedThreshold, 10 * time.Minute},
		{"ShutdownTimeout", &c.ShutdownTimeout, 10 * time.Second},
	} {
		fields.Number(f, d.name, d.value, d.zero)
	}
	fields.Default(&c.Metrics.OnList, func(time.Duration, int, error) {})
	fields.Default(&c.Metrics.OnInspect, func(time.Duration, error) {})
	fields.Default(&c.Metrics.OnFold, func(int) {})
	fields.Default(&c.Metrics.OnStale, func(int) {})
	fields.Default(&c.Metrics.OnStream, func(StreamHealth) {})
	fields.Default(&c.Metrics.OnMode, func(Mode) {})
	fields.Logger(&c.Logger)
	if c.AdaptiveRelist && c.Threshold <= maxRelistPeriod {
		f.Refuse("Threshold is not above the longest adaptive pause %v: %v", maxRelistPeriod, c.Threshold)
	}
	if c.Threshold <= c.RelistPeriod {
		f.Refuse("Threshold is not above RelistPeriod %v: %v", c.RelistPeriod, c.Threshold)
	}
	if c.EventedThreshold <= c.EventedRelistPeriod {
		f.Refuse("EventedThreshold is not above EventedRelistPeriod %v: %v", c.EventedRelistPeriod, c.EventedThreshold)
	}
	return f.Err()
}

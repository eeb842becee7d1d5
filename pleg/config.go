package pleg

import (
	"log/slog"
	"time"

	"github.com/podwright/podwright/internal/fields"
)

// Config configures a PLEG. Only Runtime is required.
type Config struct {
	// Runtime is what is observed. If it also implements EventStream, its events
	// are used as hints.
	Runtime Runtime
	// RelistPeriod is the pause after each list of all pods; 0 means 1 s.
	RelistPeriod time.Duration
	// AdaptiveRelist makes that pause follow the activity of the runtime, for
	// runtimes without events: a tenth of the time since the last activity, between
	// 100 ms and 5 s, and nine times as long as the list took, up to 5 s. An activity
	// costs at most 51 lists on top of one per 5 s. There is never more than one list
	// per 100 ms, and lists shorter than half a second take at most a tenth of the
	// time. An activity is a change that was found, or a Request. false: the pause is
	// RelistPeriod.
	AdaptiveRelist bool
	// EventedRelistPeriod is that pause while the runtime's events can be relied
	// on; 0 means 300 s.
	EventedRelistPeriod time.Duration
	// Threshold is the age of the last complete list beyond which the PLEG is
	// unhealthy; 0 means 3 min.
	Threshold time.Duration
	// EventedThreshold is that age while the runtime's events can be relied on;
	// 0 means 10 min.
	EventedThreshold time.Duration
	// ShutdownTimeout is how long Run waits, after its context ended, for calls
	// into the Runtime and callbacks to return; 0 means 10 s.
	ShutdownTimeout time.Duration
	// OnEvent, if not nil, is called with each event, one at a time and in order
	// per pod, on a goroutine of its own. It should not block: while it does,
	// observation goes on and up to 1000 events wait; then further events are
	// folded into one PodSync per pod. A panic in it, as in every callback, is
	// logged, and the event counts as delivered.
	OnEvent func(Event)
	// OnHealth, if not nil, is called when Healthy changes between nil and an error, on
	// the same goroutine as OnEvent. The first call is the first nil.
	OnHealth func(error)
	// Metrics are optional callbacks.
	Metrics Metrics
	// Logger receives changes of mode, failing lists and failing inspections;
	// nil discards.
	Logger *slog.Logger
}

// complete validates the config and fills in the defaults.
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

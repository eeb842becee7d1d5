package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podwright/podwright/pleg"
)

// Observer counts observations of the runtime (package pleg).
type Observer struct {
	listed, between, inspected prometheus.Histogram
	discarded                  prometheus.Counter
	connected, failed          prometheus.Counter
	stale                      prometheus.Gauge

	mu   sync.Mutex
	last time.Time // start of the last relist
}

func newObserver(b *builder) *Observer {
	o := &Observer{
		listed:    b.histogram("kubelet_pleg_relist_duration_seconds", "Duration of relists.", nil),
		between:   b.histogram("kubelet_pleg_relist_interval_seconds", "Time between relists.", nil),
		inspected: b.histogram("kubelet_pleg_pod_relist_duration_seconds", "Duration of observing a single pod.", nil),
		discarded: b.counter("kubelet_pleg_discard_events", "Number of events that were merged into one event per pod because their receiver was slow."),
		connected: b.counter("kubelet_evented_pleg_connection_success_count", "Number of established event streams from the runtime."),
		failed:    b.counter("kubelet_evented_pleg_connection_error_count", "Number of event streams from the runtime that failed or ended."),
		stale:     b.gauge("podwright_pleg_stale_pods", "Number of pods that cannot be observed."),
	}
	return o
}

// Callbacks returns the callbacks for package pleg.
func (o *Observer) Callbacks() pleg.Metrics {
	return pleg.Metrics{
		OnList: o.list,
		OnInspect: func(took time.Duration, _ error) {
			o.inspected.Observe(took.Seconds())
		},
		OnFold:   func(events int) { o.discarded.Add(float64(events)) },
		OnStale:  func(pods int) { o.stale.Set(float64(pods)) },
		OnStream: o.stream,
	}
}

func (o *Observer) list(took time.Duration, _ int, _ error) {
	o.listed.Observe(took.Seconds())
	o.mu.Lock()
	defer o.mu.Unlock()
	began := time.Now().Add(-took)
	if !o.last.IsZero() {
		o.between.Observe(began.Sub(o.last).Seconds())
	}
	o.last = began
}

func (o *Observer) stream(h pleg.StreamHealth) {
	switch {
	case h.State == pleg.StreamOpen:
		o.connected.Inc()
	case h.State == pleg.StreamClosed && h.Err != nil:
		o.failed.Inc()
	}
}

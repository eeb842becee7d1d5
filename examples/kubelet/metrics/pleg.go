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
		listed:    b.histogram("kubelet_pleg_relist_duration_seconds", "How long lists of all pods of the runtime took.", nil),
		between:   b.histogram("kubelet_pleg_relist_interval_seconds", "How long it was from one list of all pods to the next.", nil),
		inspected: b.histogram("kubelet_pleg_pod_relist_duration_seconds", "How long looks at single pods took.", nil),
		discarded: b.counter("kubelet_pleg_discard_events", "How many events were given up for one event per pod, because they were taken too slowly."),
		connected: b.counter("kubelet_evented_pleg_connection_success_count", "How often the runtime's stream of events was there."),
		failed:    b.counter("kubelet_evented_pleg_connection_error_count", "How often the runtime's stream of events ended or could not be had."),
		stale:     b.gauge("podwright_pleg_stale_pods", "How many pods cannot be looked at."),
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

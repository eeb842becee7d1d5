package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podwright/podwright/syncloop/eviction"
)

// Evictions counts evicted pods.
type Evictions struct {
	evicted *prometheus.CounterVec
	age     *prometheus.HistogramVec
}

func newEvictions(b *builder) *Evictions {
	return &Evictions{
		evicted: b.counters("kubelet_evictions", "Number of evicted pods, by the signal of the node or the exceeded limit of the pod.", "eviction_signal"),
		age:     b.histograms("kubelet_eviction_stats_age_seconds", "Age of the statistics on which an eviction was based.", prometheus.DefBuckets, "eviction_signal"),
	}
}

// Evicted is the OnEvict of package syncloop/eviction.
func (e *Evictions) Evicted(v eviction.Victim) {
	e.evicted.WithLabelValues(string(v.Signal)).Inc()
	if !v.Measured.IsZero() {
		e.age.WithLabelValues(string(v.Signal)).Observe(time.Since(v.Measured).Seconds())
	}
}

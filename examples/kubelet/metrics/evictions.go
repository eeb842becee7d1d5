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
		evicted: b.counters("kubelet_evictions", "How many pods were evicted, by what the node was short of, or which limit of the pod was exceeded.", "eviction_signal"),
		age:     b.histograms("kubelet_eviction_stats_age_seconds", "How old the figures were by which a pod was evicted.", prometheus.DefBuckets, "eviction_signal"),
	}
}

// Evicted is the OnEvict of package syncloop/eviction.
func (e *Evictions) Evicted(v eviction.Victim) {
	e.evicted.WithLabelValues(string(v.Signal)).Inc()
	if !v.Measured.IsZero() {
		e.age.WithLabelValues(string(v.Signal)).Observe(time.Since(v.Measured).Seconds())
	}
}

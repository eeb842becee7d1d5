package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podwright/podwright/cri"
)

// Runtime counts calls to the container runtime.
type Runtime struct {
	calls, failed *prometheus.CounterVec
	took          *prometheus.HistogramVec
}

const operationType = "operation_type"

func newRuntime(b *builder) *Runtime {
	return &Runtime{
		calls:  b.counters("kubelet_runtime_operations_total", "Number of calls to the runtime, by operation.", operationType),
		failed: b.counters("kubelet_runtime_operations_errors_total", "Number of failed calls to the runtime, by operation.", operationType),
		took: b.histograms("kubelet_runtime_operations_duration_seconds", "Duration of calls to the runtime, by operation.",
			prometheus.ExponentialBuckets(.005, 2.5, 14), operationType),
	}
}

// Called is the OnCall of a cri.ClientConfig.
func (r *Runtime) Called(c cri.CallInfo) {
	r.calls.WithLabelValues(c.Operation).Inc()
	r.took.WithLabelValues(c.Operation).Observe(c.Duration.Seconds())
	if c.Err != nil {
		r.failed.WithLabelValues(c.Operation).Inc()
	}
}

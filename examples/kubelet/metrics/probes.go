package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podwright/podwright/probe"
)

// Probes counts results of probes. The series of a probe are deleted with it.
type Probes struct {
	results *prometheus.CounterVec
	took    *prometheus.HistogramVec
}

var (
	resultLabels   = []string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"}
	durationLabels = []string{"probe_type", "container", "pod", "namespace"}
)

func newProbes(b *builder) *Probes {
	return &Probes{
		results: b.counters("prober_probe_total", "Number of probes, by result.", resultLabels...),
		took:    b.histograms("prober_probe_duration_seconds", "Duration of probes that did not fail.", nil, durationLabels...),
	}
}

// Callbacks returns the callbacks for package probe.
func (p *Probes) Callbacks() probe.Metrics {
	return probe.Metrics{OnProbe: p.probed, OnRemove: p.removed}
}

// probeResults maps verdicts to values of the label result.
var probeResults = map[probe.Verdict]string{probe.Success: "successful", probe.Warning: "successful", probe.Failure: "failed", probe.Unknown: "unknown"}

func (p *Probes) probed(d probe.Probed) {
	p.results.WithLabelValues(probeType(d.Type), probeResults[d.Verdict], d.Container, d.Pod, d.Namespace, string(d.UID)).Inc()
	if d.Verdict != probe.Failure {
		p.took.WithLabelValues(probeType(d.Type), d.Container, d.Pod, d.Namespace).Observe(d.Took.Seconds())
	}
}

func (p *Probes) removed(s probe.Series) {
	for _, result := range []string{"successful", "failed", "unknown"} {
		p.results.DeleteLabelValues(probeType(s.Type), result, s.Container, s.Pod, s.Namespace, string(s.UID))
	}
	p.took.DeleteLabelValues(probeType(s.Type), s.Container, s.Pod, s.Namespace)
}

func probeType(t probe.Type) string { return t.String() }

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podwright/podwright/probe"
)

// Probes counts what probes have shown. The series of a probe go with it.
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
		results: b.counters("prober_probe_total", "How often a probe was carried out, by what it has shown.", resultLabels...),
		took:    b.histograms("prober_probe_duration_seconds", "How long probes took that did not fail.", nil, durationLabels...),
	}
}

// Callbacks are what package probe calls.
func (p *Probes) Callbacks() probe.Metrics {
	return probe.Metrics{OnProbe: p.probed, OnRemove: p.removed}
}

// results are all that a probe can show.
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

// probeType is the word of the series.
func probeType(t probe.Type) string { return t.String() }

package summary

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// families are metrics that are computed for one scrape: what is gathered is written, and
// nothing is kept. It is a prometheus.Gatherer; a registry would check each of ten thousand
// metrics, each time, against what the tests have checked once.
type families map[string]*dto.MetricFamily

var _ prometheus.Gatherer = families(nil)

// Gather returns the metrics, sorted by name.
func (f families) Gather() ([]*dto.MetricFamily, error) {
	out := slices.Collect(maps.Values(f))
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out, nil
}

// about is what a metric is called, and whether it only ever grows.
type about struct {
	name, help string
	counter    bool
}

// add adds one value. Labels are sorted; a zero time is that of the scrape.
func (f families) add(a about, labels []*dto.LabelPair, value float64, at time.Time) {
	family := f[a.name]
	if family == nil {
		family = &dto.MetricFamily{Name: &a.name, Help: &a.help, Type: dto.MetricType_GAUGE.Enum()}
		if a.counter {
			family.Type = dto.MetricType_COUNTER.Enum()
		}
		f[a.name] = family
	}
	m := &dto.Metric{Label: labels}
	if a.counter {
		m.Counter = &dto.Counter{Value: &value}
	} else {
		m.Gauge = &dto.Gauge{Value: &value}
	}
	if !at.IsZero() {
		m.TimestampMs = new(at.UnixMilli())
	}
	family.Metric = append(family.Metric, m)
}

// pairs are labels, from names and values in turn, sorted by name.
func pairs(of ...string) []*dto.LabelPair {
	out := make([]*dto.LabelPair, 0, len(of)/2)
	for i := 0; i < len(of); i += 2 {
		out = append(out, &dto.LabelPair{Name: &of[i], Value: &of[i+1]})
	}
	return sorted(out)
}

// and adds labels to others.
func and(labels []*dto.LabelPair, more ...string) []*dto.LabelPair {
	return sorted(slices.Concat(labels, pairs(more...)))
}

func sorted(labels []*dto.LabelPair) []*dto.LabelPair {
	slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return labels
}

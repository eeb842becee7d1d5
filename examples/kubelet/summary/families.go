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

// families are the metrics of one scrape, by name. They are discarded after it. families is a
// prometheus.Gatherer. It is no registry, because a registry would validate all ten thousand
// metrics at each scrape; tests validate them once.
type families map[string]*family

var _ prometheus.Gatherer = families(nil)

type family struct {
	metricInfo
	samples []sample
}

type metricInfo struct {
	name, help string
	counter    bool
}

// sample is one value. at is in milliseconds; zero means the time of the scrape.
type sample struct {
	labels *labelSet
	value  float64
	at     int64
}

// labelSet is a set of labels shared by many samples: pairs sorted by name, and their text.
type labelSet struct {
	pairs [][2]string
	text  string
}

// add adds one value. labels may be nil. A zero time means the time of the scrape.
func (f families) add(a metricInfo, labels *labelSet, value float64, at time.Time) {
	to := f[a.name]
	if to == nil {
		to = &family{metricInfo: a}
		f[a.name] = to
	}
	s := sample{labels: labels, value: value}
	if !at.IsZero() {
		s.at = at.UnixMilli()
	}
	to.samples = append(to.samples, s)
}

func (f families) sorted() []*family {
	return slices.SortedFunc(maps.Values(f), func(a, b *family) int { return strings.Compare(a.name, b.name) })
}

// Gather returns the metrics, sorted by name.
func (f families) Gather() ([]*dto.MetricFamily, error) {
	out := make([]*dto.MetricFamily, 0, len(f))
	for _, family := range f.sorted() {
		out = append(out, family.gather())
	}
	return out, nil
}

func (f *family) gather() *dto.MetricFamily {
	out := &dto.MetricFamily{Name: &f.name, Help: &f.help, Type: dto.MetricType_GAUGE.Enum()}
	if f.counter {
		out.Type = dto.MetricType_COUNTER.Enum()
	}
	for i := range f.samples {
		s := &f.samples[i]
		m := &dto.Metric{}
		if s.labels != nil {
			for k := range s.labels.pairs {
				m.Label = append(m.Label, &dto.LabelPair{Name: &s.labels.pairs[k][0], Value: &s.labels.pairs[k][1]})
			}
		}
		if f.counter {
			m.Counter = &dto.Counter{Value: &s.value}
		} else {
			m.Gauge = &dto.Gauge{Value: &s.value}
		}
		if s.at != 0 {
			m.TimestampMs = &s.at
		}
		out.Metric = append(out.Metric, m)
	}
	return out
}

// pairs returns a label set from alternating names and values.
func pairs(of ...string) *labelSet { return (&labelSet{}).and(of...) }

// and returns the label set with more labels.
func (l *labelSet) and(more ...string) *labelSet {
	all := make([][2]string, len(l.pairs), len(l.pairs)+len(more)/2)
	copy(all, l.pairs)
	for i := 0; i < len(more); i += 2 {
		all = append(all, [2]string{more[i], more[i+1]})
	}
	slices.SortFunc(all, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	return &labelSet{pairs: all, text: labelText(all)}
}

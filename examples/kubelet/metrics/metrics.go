// Package metrics counts the operations of a kubelet under the names of the upstream kubelet's
// metrics and serves them to Prometheus: /metrics, /metrics/probes and /metrics/slis.
//
//	counted, err := metrics.New(metrics.Config{NodeName: "n", Version: "v1.36.3"})
//	runtime := cri.ClientConfig{OnCall: counted.Runtime.Called}
//	images := images.Config{Metrics: counted.Images.Callbacks()}
//	err = counted.Follow(metrics.Live{Workers: workers.Pods})
//	http.Handle("/metrics", counted.Handler())
//
// Each package of the library has a file here, which turns its callbacks into series. Current
// state, such as the number of pods, is read at each scrape (Live); no goroutine runs in between.
// There is no global state: two agents in one process have separate numbers, except process_* and
// go_*, which describe the process.
//
// The number of series is bounded by the number of containers with probes, whose series are deleted
// with them (Probes), and by configuration, such as drivers and runtime handlers. No label has a
// value chosen by a client or a pod.
//
// Not implemented, with the features that they count: kubelet_device_plugin_*, dra_*,
// kubelet_pod_resources_endpoint_*, kubelet_cpu_manager_*, kubelet_memory_manager_*,
// kubelet_topology_manager_*, kubelet_container_aligned_compute_resources_*, resource_manager_*,
// kubelet_memory_qos_* and kubelet_started_host_process_containers_*. The file
// examples/kubelet/e2e/testdata/metrics_differences.txt has all differences with reasons.
//
// Runnable example: Example in example_test.go.
package metrics

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/podwright/podwright/internal/fields"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config configures a Metrics. NodeName and Version are required.
type Config struct {
	// NodeName is the label of kubelet_node_name.
	NodeName string
	// Version is the version of the agent, such as "v1.36.3", for kubernetes_build_info.
	Version string
	// Features are the feature gates to report.
	Features []Feature
	// CgroupVersion is the machine's cgroup version, 1 or 2, or zero without cgroups.
	CgroupVersion int
}

// Feature is a feature gate.
type Feature struct {
	// Name is the gate's name. Stage is ALPHA, BETA, DEPRECATED, or "" for GA.
	Name, Stage string
	Enabled     bool
}

// Metrics has all metrics of one agent. Use New. Its callbacks are safe for concurrent use and do
// not block.
type Metrics struct {
	Runtime      *Runtime
	Pods         *Pods
	Images       *Images
	Observer     *Observer
	Volumes      *Volumes
	Probes       *Probes
	Servers      *Servers
	Cgroups      *Cgroups
	Certificates *Certificates
	Node         *Node
	Client       *Client
	Evictions    *Evictions

	all, probes, slis *prometheus.Registry
	began             time.Time
}

// New returns a Metrics without counts.
func New(cfg Config) (*Metrics, error) {
	f := fields.Of("metrics: Config")
	f.Required("NodeName", cfg.NodeName)
	f.Required("Version", cfg.Version)
	if err := f.Err(); err != nil {
		return nil, err
	}
	m := &Metrics{all: prometheus.NewRegistry(), probes: prometheus.NewRegistry(), slis: prometheus.NewRegistry(), began: time.Now()}
	b := &builder{to: m.all}
	m.Runtime, m.Pods, m.Images, m.Observer = newRuntime(b), newPods(b), newImages(b), newObserver(b)
	m.Volumes, m.Servers, m.Cgroups, m.Certificates = newVolumes(b), newServers(b), newCgroups(b, cfg.CgroupVersion), newCertificates(b)
	m.Node, m.Client, m.Evictions = newNode(b, cfg), newClient(b), newEvictions(b)
	b.add(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)))
	b.to = m.probes
	m.Probes = newProbes(b)
	for _, b.to = range []*prometheus.Registry{m.probes, m.slis} {
		b.add(collector{startTime, descs{startTimeDesc}})
	}
	return m, b.err
}

// Handler serves /metrics: everything except the results of probes and health checks.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.all, promhttp.HandlerOpts{ProcessStartTime: m.began})
}

// ProbesHandler serves the results of probes.
func (m *Metrics) ProbesHandler() http.Handler { return part(m.probes) }

// SLIsHandler serves the results of health checks.
func (m *Metrics) SLIsHandler() http.Handler { return part(m.slis) }

// part serves the remaining series if some of them fail.
func part(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// Gatherer returns the series of Handler.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.all }

// builder creates vectors and registers them. It collects errors in err.
type builder struct {
	to  *prometheus.Registry
	err error
}

func (b *builder) add(all ...prometheus.Collector) {
	for _, c := range all {
		b.err = errors.Join(b.err, b.to.Register(c))
	}
}

func (b *builder) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	b.add(c)
	return c
}

func (b *builder) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	b.add(c)
	return c
}

func (b *builder) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	b.add(g)
	return g
}

func (b *builder) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	b.add(g)
	return g
}

// histogram uses Prometheus' default buckets if buckets is nil.
func (b *builder) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	b.add(h)
	return h
}

func (b *builder) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	b.add(h)
	return h
}

var startTimeDesc = desc("process_start_time_seconds", "Unix time of the process start, in seconds.")

// startTime collects the start time of the process, by which Prometheus detects reset counters. It
// collects nothing without /proc.
func startTime(out chan<- prometheus.Metric) {
	if began, ok := processStart(os.Getpid()); ok {
		out <- prometheus.MustNewConstMetric(startTimeDesc, prometheus.GaugeValue, began)
	}
}

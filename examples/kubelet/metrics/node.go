package metrics

import (
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Node has the metrics that exist once per node.
type Node struct {
	pre, registration, post, whole prometheus.Gauge
	fromBoot                       prometheus.Gauge
	losing, source                 *prometheus.GaugeVec
	downBegan, downEnded           prometheus.Gauge

	mu                             sync.Mutex
	began, registering, registered time.Time
	ready                          bool
}

func newNode(b *builder, cfg Config) *Node {
	n := &Node{
		fromBoot:     b.gauge("kubelet_node_startup_pre_kubelet_duration_seconds", "Time from the machine's start to the kubelet's start."),
		pre:          b.gauge("kubelet_node_startup_pre_registration_duration_seconds", "Time from the kubelet's start to its first attempt to register the node."),
		registration: b.gauge("kubelet_node_startup_registration_duration_seconds", "Time from the first attempt to register the node to its registration."),
		post:         b.gauge("kubelet_node_startup_post_registration_duration_seconds", "Time from the node's registration until it was ready."),
		whole:        b.gauge("kubelet_node_startup_duration_seconds", "Time from the machine's start until the node was ready."),
		losing:       b.gauges("kubelet_cri_losing_support", "1 if the runtime lacks features that Kubernetes requires from the version in the label.", "version"),
		source:       b.gauges("kubelet_metrics_provider", "1 for the source of container statistics: cgroups or cri (the runtime).", "provider"),
		downBegan:    b.gauge("kubelet_graceful_shutdown_start_time_seconds", "Unix time of the start of the last graceful node shutdown, in seconds; 0 without one."),
		downEnded:    b.gauge("kubelet_graceful_shutdown_end_time_seconds", "Unix time at which the last graceful node shutdown had ended its pods, in seconds; 0 if it has not."),
		began:        time.Now(),
	}
	b.gauges("kubelet_node_name", "1, with the name of the node as label.", "node").WithLabelValues(cfg.NodeName).Set(1)
	features := b.gauges("kubernetes_feature_enabled", "1 if a feature gate is enabled, else 0, with the stage of the feature as label.", "name", "stage")
	for _, f := range cfg.Features {
		features.WithLabelValues(f.Name, f.Stage).Set(boolValue(f.Enabled))
	}
	buildInfo(b, cfg.Version)
	return n
}

func boolValue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func buildInfo(b *builder, version string) {
	plain, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "+")
	parts := append(strings.Split(plain, "."), "", "")
	b.gauges("kubernetes_build_info", "1, with version, compiler and platform of this program as labels.",
		"major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform").
		WithLabelValues(parts[0], parts[1], version, "", "", "", runtime.Version(), runtime.Compiler, runtime.GOOS+"/"+runtime.GOARCH).Set(1)
}

// LosingSupport records that from this version of Kubernetes on, the runtime lacks a required
// feature, such as RuntimeConfig.
func (n *Node) LosingSupport(version string) { n.losing.WithLabelValues(version).Set(1) }

// Measures records the source of container statistics: cgroups or cri.
func (n *Node) Measures(source string) { n.source.WithLabelValues(source).Set(1) }

// Registering records the start of the node's registration. Only the first call counts, as for
// Registered and Ready.
func (n *Node) Registering(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.registering.IsZero() {
		n.registering = at
		n.pre.Set(at.Sub(n.began).Seconds())
	}
}

// Registered records that the node is registered at the API server.
func (n *Node) Registered(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.registered.IsZero() && !n.registering.IsZero() {
		n.registered = at
		n.registration.Set(at.Sub(n.registering).Seconds())
	}
}

// Ready records that the API server has the node as ready. It is ignored before Registered.
func (n *Node) Ready(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ready || n.registered.IsZero() {
		return
	}
	n.ready = true
	n.post.Set(at.Sub(n.registered).Seconds())
	if boot, ok := machineStart(); ok {
		n.fromBoot.Set(n.began.Sub(boot).Seconds())
		n.whole.Set(at.Sub(boot).Seconds())
	}
}

// ShutDown records when the last shutdown of the node began and when its pods had ended. A zero
// time is reported as 0.
func (n *Node) ShutDown(began, ended time.Time) {
	n.downBegan.Set(seconds(began))
	n.downEnded.Set(seconds(ended))
}

// seconds returns a time in seconds since 1970, 0 for the zero time.
func seconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixNano()) / float64(time.Second)
}

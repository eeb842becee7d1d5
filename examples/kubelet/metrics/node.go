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

	mu                       sync.Mutex
	began, asked, registered time.Time
	ready                    bool
}

func newNode(b *builder, cfg Config) *Node {
	n := &Node{
		fromBoot:     b.gauge("kubelet_node_startup_pre_kubelet_duration_seconds", "How long it was from the machine's start to the kubelet's."),
		pre:          b.gauge("kubelet_node_startup_pre_registration_duration_seconds", "How long it was from the kubelet's start to when it first tried to register the node."),
		registration: b.gauge("kubelet_node_startup_registration_duration_seconds", "How long it was from there to when the node was registered."),
		post:         b.gauge("kubelet_node_startup_post_registration_duration_seconds", "How long it was from there to when the node was ready."),
		whole:        b.gauge("kubelet_node_startup_duration_seconds", "How long it was from the machine's start to when the node was ready."),
		losing:       b.gauges("kubelet_cri_losing_support", "The version of Kubernetes from which on the runtime will not do any more, for what it lacks.", "version"),
		source:       b.gauges("kubelet_metrics_provider", "From where it is known what containers use: cgroups, or cri for the runtime.", "provider"),
		downBegan:    b.gauge("kubelet_graceful_shutdown_start_time_seconds", "When the last graceful shutdown of the node began, in seconds since 1970; 0: never."),
		downEnded:    b.gauge("kubelet_graceful_shutdown_end_time_seconds", "When the last graceful shutdown of the node had ended its pods, in seconds since 1970; 0: it has not."),
		began:        time.Now(),
	}
	b.gauges("kubelet_node_name", "The name of the node.", "node").WithLabelValues(cfg.NodeName).Set(1)
	features := b.gauges("kubernetes_feature_enabled", "Whether a feature gate is on, and how far its feature has come.", "name", "stage")
	for _, f := range cfg.Features {
		features.WithLabelValues(f.Name, f.Stage).Set(truth(f.Enabled))
	}
	buildInfo(b, cfg.Version)
	return n
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func buildInfo(b *builder, version string) {
	plain, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "+")
	parts := append(strings.Split(plain, "."), "", "")
	b.gauges("kubernetes_build_info", "What runs, and what it was built by and for.",
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
	if n.asked.IsZero() {
		n.asked = at
		n.pre.Set(at.Sub(n.began).Seconds())
	}
}

// Registered records that the node is registered at the API server.
func (n *Node) Registered(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.registered.IsZero() && !n.asked.IsZero() {
		n.registered = at
		n.registration.Set(at.Sub(n.asked).Seconds())
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

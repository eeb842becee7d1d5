package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/summary"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/volume/manager"
	"github.com/podwright/podwright/volume/usage"
)

// Live has functions that return current state at each scrape. They are called concurrently, return
// from memory, and return a zero value if the state is not available yet. Each function is
// optional: without it its series do not exist.
type Live struct {
	// Workers returns the pods that have a worker.
	Workers func() []podworkers.PodState
	// Desired returns the pods of all sources, Mirrors the mirror pods of the API server, Active
	// the pods that admission counts.
	Desired, Mirrors, Active func() []*v1.Pod
	// Observed returns the pods of the runtime. ListedAt returns the time of the last relist.
	Observed func() []observed.ListedPod
	ListedAt func() time.Time
	// Volumes returns the number of volumes by plugin and state.
	Volumes func() map[manager.Count]int
	// Status returns the newest status of a pod.
	Status func(uid types.UID) *v1.PodStatus
	// Claims returns the usage of volumes by PersistentVolumeClaim, Logs the usage of container
	// logs.
	Claims func() map[types.NamespacedName]usage.Usage
	Logs   func() []summary.Log
	// Records returns the number of pulls recorded as in progress, and the number of images with a
	// record of the permission to use them.
	Records func() (pulling, pulled int)
	// ServingExpires and ClientExpires return the expiry of the kubelet API's certificate and of
	// the API client's, or zero without one.
	ServingExpires, ClientExpires func() time.Time
	// Credential returns the reason why there is no usable or renewable credential for the API server,
	// or nil.
	Credential func() error
	// Health returns the result of each healthz check by name. A nil error is a success.
	Health func() map[string]error
}

// Follow registers the series of l. Call it once, before the first scrape.
func (m *Metrics) Follow(l Live) error {
	m.Pods.starts.lookup = l.Status
	b := &builder{to: m.all}
	for _, c := range []struct {
		wanted bool
		collector
	}{
		{l.Workers != nil, collector{l.workers, descs{workingDesc}}},
		{l.Desired != nil, collector{l.desired, descs{desiredDesc, activeDesc, mirrorDesc, ephemeralDesc, resizingDesc, waitingDesc}}},
		{l.Observed != nil, collector{l.actual, descs{runningDesc, containersDesc, lastSeenDesc}}},
		{l.Volumes != nil, collector{l.volumes, descs{volumesDesc}}},
		{l.Claims != nil, collector{l.claims, claimDescs()}},
		{l.Records != nil, collector{l.pullRecords, descs{pullingDesc, pulledDesc}}},
		{l.Logs != nil, collector{l.logSizes, descs{logDesc}}},
	} {
		if c.wanted {
			b.add(c.collector)
		}
	}
	expiry(b, l)
	credential(b, l)
	if l.Health != nil {
		b.to = m.slis
		b.add(&health{checks: l.Health, total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubernetes_healthchecks_total", Help: "Number of health check results, by status. Each scrape of this page counts.",
		}, []string{"name", "type", "status"})})
	}
	return b.err
}

// collector collects metrics at a scrape.
type collector struct {
	collect func(out chan<- prometheus.Metric)
	descs   descs
}

type descs []*prometheus.Desc

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) { c.collect(out) }

// isStatic is the value of the label static for static pods. It is "" for all others.
const isStatic = "true"

func staticLabel(static bool) string {
	if static {
		return isStatic
	}
	return ""
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func gauge(out chan<- prometheus.Metric, d *prometheus.Desc, value int, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
}

var workingDesc = desc("kubelet_working_pods", "Number of pods with a worker, by phase of their life, whether a source names them, and whether they are static.",
	"lifecycle", "config", "static")

type working struct{ lifecycle, config, static string }

func (l Live) workers(out chan<- prometheus.Metric) {
	counts := map[working]int{}
	for _, lifecycle := range []string{"sync", "terminating", "terminated"} {
		for _, config := range []string{"desired", "orphan"} {
			counts[working{lifecycle, config, ""}], counts[working{lifecycle, config, isStatic}] = 0, 0
		}
		counts[working{lifecycle, "runtime_only", "unknown"}] = 0
	}
	for _, s := range l.Workers() {
		if s.State != podworkers.StateFinished {
			counts[workingOf(s)]++
		}
	}
	for of, n := range counts {
		gauge(out, workingDesc, n, of.lifecycle, of.config, of.static)
	}
}

func workingOf(s podworkers.PodState) working {
	l := working{"sync", "desired", staticLabel(s.Static)}
	switch s.State {
	case podworkers.StateTerminationRequested, podworkers.StateTerminating:
		l.lifecycle = "terminating"
	case podworkers.StateTerminated, podworkers.StateFinished:
		l.lifecycle = "terminated"
	}
	switch {
	case s.RuntimeOnly:
		l.config, l.static = "runtime_only", "unknown"
	case s.Undesired:
		l.config = "orphan"
	}
	return l
}

var (
	desiredDesc   = desc("kubelet_desired_pods", "Number of pods that sources name.", "static")
	activeDesc    = desc("kubelet_active_pods", "Number of pods whose resources count for admission.", "static")
	mirrorDesc    = desc("kubelet_mirror_pods", "Number of mirror pods at the API server.")
	resizingDesc  = desc("kubelet_pod_in_progress_resizes", "Number of pods with an in-place resize in progress.")
	waitingDesc   = desc("kubelet_pod_pending_resizes", "Number of pending pod resizes, by reason.", "reason")
	ephemeralDesc = desc("kubelet_managed_ephemeral_containers", "Number of ephemeral containers.")
)

func (l Live) desired(out chan<- prometheus.Metric) {
	pods := l.Desired()
	byKind(out, desiredDesc, pods)
	ephemeral := 0
	for _, pod := range pods {
		ephemeral += len(pod.Spec.EphemeralContainers)
	}
	gauge(out, ephemeralDesc, ephemeral)
	if l.Status != nil {
		l.resizes(out, pods)
	}
	if l.Active != nil {
		byKind(out, activeDesc, l.Active())
	}
	if l.Mirrors != nil {
		gauge(out, mirrorDesc, len(l.Mirrors()))
	}
}

func (l Live) resizes(out chan<- prometheus.Metric, pods []*v1.Pod) {
	running, waiting := 0, map[string]int{}
	for _, pod := range pods {
		status := l.Status(pod.UID)
		if status == nil {
			continue
		}
		if podfacts.Condition(status.Conditions, v1.PodResizeInProgress) != nil {
			running++
		}
		if c := podfacts.Condition(status.Conditions, v1.PodResizePending); c != nil {
			waiting[strings.ToLower(c.Reason)]++
		}
	}
	gauge(out, resizingDesc, running)
	for reason, n := range waiting {
		gauge(out, waitingDesc, n, reason)
	}
}

func byKind(out chan<- prometheus.Metric, d *prometheus.Desc, pods []*v1.Pod) {
	static := 0
	for _, pod := range pods {
		if podfacts.IsStatic(pod) {
			static++
		}
	}
	gauge(out, d, len(pods)-static, "")
	gauge(out, d, static, isStatic)
}

var (
	runningDesc    = desc("kubelet_running_pods", "Number of pods with a running sandbox.")
	containersDesc = desc("kubelet_running_containers", "Number of containers in the runtime, by state.", "container_state")
	lastSeenDesc   = desc("kubelet_pleg_last_seen_seconds", "Unix time of the last relist, in seconds.")
)

func (l Live) actual(out chan<- prometheus.Metric) {
	running, states := 0, map[string]int{}
	for _, pod := range l.Observed() {
		for _, s := range pod.Sandboxes {
			if s.State == observed.SandboxReady {
				running++
				break
			}
		}
		for _, c := range pod.Containers {
			states[c.State.String()]++
		}
	}
	gauge(out, runningDesc, running)
	for state, n := range states {
		gauge(out, containersDesc, n, state)
	}
	if l.ListedAt != nil {
		if at := l.ListedAt(); !at.IsZero() {
			out <- prometheus.MustNewConstMetric(lastSeenDesc, prometheus.GaugeValue, float64(at.Unix()))
		}
	}
}

var volumesDesc = desc("volume_manager_total_volumes", "Number of volumes, by plugin and by state: mounted, or required by pods.", "plugin_name", "state")

func (l Live) volumes(out chan<- prometheus.Metric) {
	actual, wanted := map[string]int{}, map[string]int{}
	for c, n := range l.Volumes() {
		if c.State != manager.StateNotMounted {
			actual[c.Plugin] += n
		}
		if c.Wanted {
			wanted[c.Plugin] += n
		}
	}
	for state, counts := range map[string]map[string]int{"actual_state_of_world": actual, "desired_state_of_world": wanted} {
		for plugin, n := range counts {
			gauge(out, volumesDesc, n, plugin, state)
		}
	}
}

// health collects the results of the healthz checks.
type health struct {
	checks func() map[string]error
	total  *prometheus.CounterVec
}

var healthDesc = desc("kubernetes_healthcheck", "1 if a health check passes, else 0.", "name", "type")

// Describe implements prometheus.Collector.
func (h *health) Describe(out chan<- *prometheus.Desc) {
	out <- healthDesc
	h.total.Describe(out)
}

// Collect implements prometheus.Collector.
func (h *health) Collect(out chan<- prometheus.Metric) {
	for name, err := range h.checks() {
		how := "success"
		if err != nil {
			how = "error"
		}
		h.total.WithLabelValues(name, "healthz", how).Inc()
		out <- prometheus.MustNewConstMetric(healthDesc, prometheus.GaugeValue, boolValue(err == nil), name, "healthz")
	}
	h.total.Collect(out)
}

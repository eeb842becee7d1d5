package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// starts measures the start of pods, with upstream's definitions: from the first sight of a pod
// until it runs, and, for pods of an API server, from their creation until the API server reports
// all containers running, with and without the waits that a kubelet cannot influence.
type starts struct {
	running    prometheus.Histogram
	total, sli *prometheus.HistogramVec
	first      prometheus.Gauge
	// lookup is Live.Status.
	lookup func(types.UID) *v1.PodStatus

	mu   sync.Mutex
	pods map[types.UID]*start
	// created are startable pods that the API server listed and that have no worker yet. Most of
	// them soon start or fail.
	created map[types.UID]bool
	seen    bool // a pod without host network has started
}

// start is a pod that has a worker and does not run yet.
type start struct {
	seen time.Time
	ran  bool
	// created is true if the API server reported the pod before it started, and it could start at
	// once.
	created bool
	// pulling is the time spent waiting for images until pulled.
	pulling time.Duration
	pulled  time.Time
}

var startSeconds = []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}

func newStarts(b *builder) *starts {
	return &starts{
		running: b.histogram("kubelet_pod_start_duration_seconds", "Time from the first sight of a pod until it ran.", startSeconds),
		total:   b.histograms("kubelet_pod_start_total_duration_seconds", "Time from a pod's creation until the API server reported that all its containers run.", startSeconds),
		sli:     b.histograms("kubelet_pod_start_sli_duration_seconds", "Like kubelet_pod_start_total_duration_seconds, without image pulls and init containers, for pods without persistent volumes.", startSeconds),
		first:   b.gauge("kubelet_first_network_pod_start_sli_duration_seconds", "First kubelet_pod_start_sli_duration_seconds of a pod that is not on the host network."),
		pods:    map[types.UID]*start{},
		created: map[types.UID]bool{},
	}
}

func (s *starts) begin(uid types.UID, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[uid] = &start{seen: at, created: s.created[uid]}
	delete(s.created, uid)
}

func (s *starts) end(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
	delete(s.created, uid)
}

func (s *starts) waits(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	return p != nil && !p.ran
}

// status records a computed status, whose times are whole seconds. A pod that ran before its first
// sight was started by an earlier agent and is not counted.
func (s *starts) status(uid types.UID, now *v1.PodStatus, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil || p.ran || now == nil || now.Phase != v1.PodRunning {
		return
	}
	p.ran = true
	if began := firstStart(now); began.IsZero() || !began.Before(p.seen.Truncate(time.Second)) {
		s.running.Observe(at.Sub(p.seen).Seconds())
	}
}

// firstStart returns the start of the first container that runs.
func firstStart(s *v1.PodStatus) (first time.Time) {
	for _, c := range s.ContainerStatuses {
		if r := c.State.Running; r != nil && (first.IsZero() || r.StartedAt.Time.Before(first)) {
			first = r.StartedAt.Time
		}
	}
	return first
}

func (s *starts) pull(uid types.UID, from, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil {
		return
	}
	if from.Before(p.pulled) {
		from = p.pulled
	}
	if to.After(from) {
		p.pulling, p.pulled = p.pulling+to.Sub(from), to
	}
}

// api records a pod as received from the API server.
func (s *starts) api(pod *v1.Pod, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[pod.UID]
	switch {
	case p == nil:
		s.early(pod)
		return
	case waitsForNode(pod), pod.Status.Phase == v1.PodFailed, pod.Status.Phase == v1.PodSucceeded:
		p.created = false
		return
	case pod.Status.StartTime.IsZero():
		p.created = true
		return
	case !p.created || !p.ran || !allRun(pod):
		return
	}
	p.created = false
	total := at.Sub(pod.CreationTimestamp.Time)
	s.total.WithLabelValues().Observe(total.Seconds())
	if keepsData(pod) {
		return
	}
	sli := total - p.pulling - initTime(&pod.Status)
	s.sli.WithLabelValues().Observe(sli.Seconds())
	if !s.seen && !pod.Spec.HostNetwork {
		s.seen = true
		s.first.Set(sli.Seconds())
	}
}

// manyCreated bounds starts.created. The map is cleared at this size, because pods may disappear
// without an event.
const manyCreated = 1000

// early records a pod that has no worker.
func (s *starts) early(pod *v1.Pod) {
	if waitsForNode(pod) || pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded {
		delete(s.created, pod.UID)
		return
	}
	if pod.Status.StartTime.IsZero() {
		if len(s.created) >= manyCreated {
			clear(s.created)
		}
		s.created[pod.UID] = true
	}
}

// waitsForNode reports whether scheduling did not find a node at once.
func waitsForNode(pod *v1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			return true
		}
	}
	return false
}

func allRun(pod *v1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		if r := pod.Status.ContainerStatuses[i].State.Running; r == nil || r.StartedAt.IsZero() {
			return false
		}
	}
	return true
}

// keepsData reports whether a pod has a volume other than those that the kubelet creates for it.
func keepsData(pod *v1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if v.Secret == nil && v.ConfigMap == nil && v.DownwardAPI == nil && v.EmptyDir == nil && v.Projected == nil {
			return true
		}
	}
	return false
}

// initTime returns the total run time of terminated init containers.
func initTime(s *v1.PodStatus) (sum time.Duration) {
	for i := range s.InitContainerStatuses {
		if t := s.InitContainerStatuses[i].State.Terminated; t != nil {
			sum += t.FinishedAt.Sub(t.StartedAt.Time)
		}
	}
	return sum
}

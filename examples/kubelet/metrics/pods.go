package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/hooks"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop/allocation"
)

// Pods counts operations on pods and their containers.
type Pods struct {
	worked                            *prometheus.HistogramVec
	workerStart, containers, behind   prometheus.Histogram
	sandboxTook                       *prometheus.HistogramVec
	sandboxFailed                     *prometheus.CounterVec
	started, notStarted               prometheus.Counter
	ownUsers, noOwnUsers              prometheus.Counter
	images, imagesIn, imagesNot       prometheus.Counter
	startedContainers, terminated     *prometheus.CounterVec
	notStartedContainers, rejected    *prometheus.CounterVec
	preempted                         *prometheus.CounterVec
	orphans, httpFallbacks, sleepsCut prometheus.Counter
	resized                           *prometheus.HistogramVec
	resizes, infeasible, accepted     *prometheus.CounterVec
	restarted                         *prometheus.CounterVec
	rotated                           *prometheus.CounterVec
	written                           *prometheus.HistogramVec
	starts                            *starts
}

const containerType = "container_type"

// behindSeconds are the buckets of the delay of written statuses, in seconds. resizeMilliseconds
// are the buckets of resizes, in milliseconds.
var (
	behindSeconds      = []float64{0.010, 0.050, 0.100, 0.500, 1, 5, 10, 20, 30, 45, 60}
	resizeMilliseconds = []float64{10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000}
)

func newPods(b *builder) *Pods {
	p := &Pods{
		worked:      b.histograms("kubelet_pod_worker_duration_seconds", "Time from a change of a pod until it was processed, by kind of change.", nil, operationType),
		workerStart: b.histogram("kubelet_pod_worker_start_duration_seconds", "Time from the first sight of a pod until its worker started.", nil),
		containers:  b.histogram("kubelet_containers_per_pod_count", "Number of containers of each started pod.", prometheus.ExponentialBuckets(1, 2, 5)),
		behind:      b.histogram("kubelet_pod_status_sync_duration_seconds", "Age of a pod's status when it was written to the API server.", behindSeconds),

		sandboxTook:          b.histograms("kubelet_run_podsandbox_duration_seconds", "Duration of sandbox creation, by runtime handler.", nil, "runtime_handler"),
		sandboxFailed:        b.counters("kubelet_run_podsandbox_errors_total", "Number of sandboxes that could not be created, by runtime handler.", "runtime_handler"),
		started:              b.counter("kubelet_started_pods_total", "Number of attempts to create a sandbox."),
		notStarted:           b.counter("kubelet_started_pods_errors_total", "Number of sandboxes that could not be created."),
		startedContainers:    b.counters("kubelet_started_containers_total", "Number of attempts to start a container, by kind of container.", containerType),
		notStartedContainers: b.counters("kubelet_started_containers_errors_total", "Number of containers that could not be started, by kind and reason.", containerType, "code"),
		terminated:           b.counters("kubelet_terminated_containers_total", "Number of terminated containers, by kind, exit code and reason.", containerType, "exit_code", "reason"),

		preempted:     b.counters("kubelet_preemptions", "Number of pods that were preempted for critical pods, by missing resource.", "preemption_signal"),
		rejected:      b.counters("kubelet_admission_rejections_total", "Number of rejected pods, by reason.", "reason"),
		ownUsers:      b.counter("kubelet_started_user_namespaced_pods_total", "Number of attempts to start a pod with a user namespace."),
		noOwnUsers:    b.counter("kubelet_started_user_namespaced_pods_errors_total", "Number of failed attempts to start a pod with a user namespace."),
		images:        b.counter("kubelet_image_volume_requested_total", "Number of image volumes that starting containers required."),
		imagesIn:      b.counter("kubelet_image_volume_mounted_succeed_total", "Number of required image volumes that were mounted."),
		imagesNot:     b.counter("kubelet_image_volume_mounted_errors_total", "Number of required image volumes that could not be mounted."),
		orphans:       b.counter("kubelet_orphaned_runtime_pods_total", "Number of pods that only the runtime listed."),
		restarted:     b.counters("kubelet_restarted_pods_total", "Number of pods that were created again with the same UID while the earlier pod was terminating.", "static"),
		httpFallbacks: b.counter("kubelet_lifecycle_handler_http_fallbacks_total", "Number of https lifecycle handlers that succeeded after a fallback to http."),
		sleepsCut:     b.counter("kubelet_sleep_action_terminated_early_total", "Number of sleep handlers that were ended early."),
		resized:       b.histograms("kubelet_pod_resize_duration_milliseconds", "Duration of in-place pod resizes, by whether they succeeded.", resizeMilliseconds, "success"),
		resizes:       b.counters("kubelet_container_requested_resizes_total", "Number of requested changes of container resources, by resource, by request or limit, and by operation.", "resource", "requirement", "operation"),
		infeasible:    b.counters("kubelet_pod_infeasible_resizes_total", "Number of infeasible pod resizes, by reason.", "reason_detail"),
		accepted:      b.counters("kubelet_pod_deferred_accepted_resizes_total", "Number of deferred pod resizes that were later accepted, by trigger of the retry.", "retry_trigger"),

		rotated: b.counters("podwright_log_rotations_total", "Number of container log rotations, by whether they succeeded.", "success"),
		written: b.histograms("podwright_status_call_duration_seconds", "Duration of calls to a sink of pod statuses, by sink and call.", nil, "sink", "call"),
		starts:  newStarts(b),
	}
	for _, static := range []string{"", isStatic} {
		p.restarted.WithLabelValues(static)
	}
	return p
}

// Called is the OnCall of package podworkers.
func (p *Pods) Called(c podworkers.CallDone) {
	kind := string(c.Type)
	switch c.Call {
	case podworkers.CallSyncTerminatedPod:
		kind = "terminated"
	case podworkers.CallSyncTerminatingOrphan:
		kind = string(podworkers.UpdateKill)
		p.orphans.Inc()
	case podworkers.CallSyncPod:
		if c.Type == podworkers.UpdateCreate && !c.Seen.IsZero() {
			p.workerStart.Observe(c.Began.Sub(c.Seen).Seconds())
			p.containers.Observe(float64(len(c.Pod.Spec.Containers)))
		}
	}
	if !c.Seen.IsZero() {
		p.worked.WithLabelValues(kind).Observe(c.Ended.Sub(c.Seen).Seconds())
	}
}

// Moved is the OnTransition of package podworkers.
func (p *Pods) Moved(t podworkers.Transition) {
	switch t.To {
	case podworkers.StateSyncing:
		p.starts.begin(t.UID, t.At)
	case podworkers.StateTerminationRequested, podworkers.StateTerminating, podworkers.StateTerminated, podworkers.StateFinished, podworkers.StateUnknown:
		p.starts.end(t.UID)
	}
}

// Callbacks returns the callbacks for package cri/pods.
func (p *Pods) Callbacks() pods.Metrics {
	return pods.Metrics{OnSandboxStart: p.sandbox, OnContainerStart: p.container, OnUsersStart: p.users, OnImagesMount: p.imageVolumes, OnResize: func(took time.Duration, err error) {
		p.resized.WithLabelValues(strconv.FormatBool(err == nil)).Observe(float64(took.Milliseconds()))
	}}
}

// Resizes returns the callbacks for package syncloop/allocation.
func (p *Pods) Resizes() allocation.Metrics {
	return allocation.Metrics{
		OnRequest: func(resource, requirement, operation string) {
			p.resizes.WithLabelValues(resource, requirement, operation).Inc()
		},
		OnInfeasible:       func(detail string) { p.infeasible.WithLabelValues(detail).Inc() },
		OnDeferredAccepted: func(trigger string) { p.accepted.WithLabelValues(trigger).Inc() },
	}
}

func (p *Pods) sandbox(handler string, took time.Duration, err error) {
	p.started.Inc()
	p.sandboxTook.WithLabelValues(handler).Observe(took.Seconds())
	if err != nil {
		p.notStarted.Inc()
		p.sandboxFailed.WithLabelValues(handler).Inc()
	}
}

func (p *Pods) users(err error) {
	p.ownUsers.Inc()
	if err != nil {
		p.noOwnUsers.Inc()
	}
}

func (p *Pods) imageVolumes(n int, failed bool) {
	p.images.Add(float64(n))
	if failed {
		p.imagesNot.Add(float64(n))
	} else {
		p.imagesIn.Add(float64(n))
	}
}

func (p *Pods) container(kind pods.ContainerKind, reason string) {
	p.startedContainers.WithLabelValues(string(kind)).Inc()
	if reason != "" {
		p.notStartedContainers.WithLabelValues(string(kind), reason).Inc()
	}
}

// Hooks returns the callbacks for package cri/pods/hooks.
func (p *Pods) Hooks() hooks.Metrics {
	return hooks.Metrics{OnHTTPFallback: p.httpFallbacks.Inc, OnSleepTerminatedEarly: p.sleepsCut.Inc}
}

// Statuses returns the callbacks for package status/writer. sink is the name of the API server's
// sink.
func (p *Pods) Statuses(sink string) writer.Metrics {
	return writer.Metrics{
		OnSynced: func(to string, behind time.Duration) {
			if to == sink {
				p.behind.Observe(behind.Seconds())
			}
		},
		OnTerminated: func(kind string, ended *v1.ContainerStateTerminated) {
			p.terminated.WithLabelValues(kind, strconv.Itoa(int(ended.ExitCode)), ended.Reason).Inc()
		},
		OnCall: func(to, call string, took time.Duration, _ error) {
			p.written.WithLabelValues(to, call).Observe(took.Seconds())
		},
	}
}

// Rejected counts a pod that was not admitted. reason is the reason in its status.
func (p *Pods) Rejected(reason string) { p.rejected.WithLabelValues(reason).Inc() }

// Preempted counts a pod that was ended for a critical pod.
func (p *Pods) Preempted(signal string) { p.preempted.WithLabelValues(signal).Inc() }

// Restarted is the OnRestart of package syncloop.
func (p *Pods) Restarted(pod *v1.Pod) {
	p.restarted.WithLabelValues(staticLabel(podfacts.IsStatic(pod))).Inc()
}

// Rotated is the OnRotate of package cri/logs.
func (p *Pods) Rotated(r logs.Rotation) {
	p.rotated.WithLabelValues(strconv.FormatBool(r.Err == nil)).Inc()
}

// StatusChanged is the OnChange of package status/writer.
func (p *Pods) StatusChanged(uid types.UID) {
	if p.starts.lookup != nil && p.starts.waits(uid) {
		p.starts.status(uid, p.starts.lookup(uid), time.Now())
	}
}

// Waited is the Waited of package cri/images.
func (p *Pods) Waited(uid types.UID, from, to time.Time) { p.starts.pull(uid, from, to) }

// AtAPI records a pod as received from the API server.
func (p *Pods) AtAPI(pod *v1.Pod) { p.starts.api(pod, time.Now()) }

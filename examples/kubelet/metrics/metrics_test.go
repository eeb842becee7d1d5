package metrics

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/cgroups"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/logs"
	"github.com/podwright/podwright/cri/pods"
	kernel "github.com/podwright/podwright/examples/kubelet/cgroups"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/syncloop/eviction"
	"github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/manager"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("broken")

func newMetrics(t testing.TB) *Metrics {
	t.Helper()
	m, err := New(Config{NodeName: "n", Version: "v1.36.3+x", CgroupVersion: 2, Features: []Feature{{"A", "ALPHA", false}, {"B", "", true}}})
	require.NoError(t, err)
	return m
}

// has checks the lines of the series with these names, without comments.
func has(t testing.TB, from prometheus.Gatherer, names string, want ...string) {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	var got []string
	for _, f := range families {
		for name := range strings.FieldsSeq(names) {
			if f.GetName() != name {
				continue
			}
			for _, m := range f.GetMetric() {
				line := name
				for _, l := range m.GetLabel() {
					line += " " + l.GetName() + "=" + l.GetValue()
				}
				switch {
				case m.GetHistogram() != nil:
					line += fmt.Sprintf(" %d %g", m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum())
				case m.GetCounter() != nil:
					line += fmt.Sprintf(" %g", m.GetCounter().GetValue())
				default:
					line += fmt.Sprintf(" %g", m.GetGauge().GetValue())
				}
				got = append(got, line)
			}
		}
	}
	require.ElementsMatch(t, want, got)
}

func TestConfig(t *testing.T) {
	_, err := New(Config{})
	require.EqualError(t, err, "metrics: Config.NodeName is required\nmetrics: Config.Version is required")
}

// Two agents in one process have separate numbers.
func TestTwoAgentsInOneProcess(t *testing.T) {
	a, b := newMetrics(t), newMetrics(t)
	a.Images.Removed(gc.Image{}, gc.ReasonAge)
	has(t, a.Gatherer(), "kubelet_image_garbage_collected_total", "kubelet_image_garbage_collected_total reason=age 1")
	has(t, b.Gatherer(), "kubelet_image_garbage_collected_total")
	require.NoError(t, a.Follow(Live{Workers: func() []podworkers.PodState { return nil }}))
	require.Error(t, a.Follow(Live{Workers: func() []podworkers.PodState { return nil }}), "once")
}

func TestNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t)
		has(t, m.all, "kubelet_node_name kubelet_cgroup_version kubernetes_feature_enabled",
			"kubelet_node_name node=n 1", "kubelet_cgroup_version 2", "kubernetes_feature_enabled name=A stage=ALPHA 0", "kubernetes_feature_enabled name=B stage= 1")
		m.Node.LosingSupport("1.37.0")
		has(t, m.all, "kubelet_cri_losing_support", "kubelet_cri_losing_support version=1.37.0 1")
		time.Sleep(2 * time.Second)
		m.Node.Ready(time.Now()) // ignored before the registration
		for range 3 {            // only the first one counts
			m.Node.Registering(time.Now())
			time.Sleep(3 * time.Second)
			m.Node.Registered(time.Now())
			time.Sleep(5 * time.Second)
			m.Node.Ready(time.Now())
		}
		has(t, m.all, "kubelet_node_startup_pre_registration_duration_seconds kubelet_node_startup_registration_duration_seconds kubelet_node_startup_post_registration_duration_seconds",
			"kubelet_node_startup_pre_registration_duration_seconds 2", "kubelet_node_startup_registration_duration_seconds 3", "kubelet_node_startup_post_registration_duration_seconds 5")
	})
}

func TestRuntime(t *testing.T) {
	m := newMetrics(t)
	m.Runtime.Called(cri.CallInfo{Operation: "version", Duration: time.Second})
	m.Runtime.Called(cri.CallInfo{Operation: "version", Duration: time.Second, Err: errBroken})
	has(t, m.all, "kubelet_runtime_operations_total kubelet_runtime_operations_errors_total kubelet_runtime_operations_duration_seconds",
		"kubelet_runtime_operations_total operation_type=version 2", "kubelet_runtime_operations_errors_total operation_type=version 1",
		"kubelet_runtime_operations_duration_seconds operation_type=version 2 2")
}

func TestImages(t *testing.T) {
	m := newMetrics(t)
	c := m.Images.Callbacks()
	c.OnRequest(v1.PullIfNotPresent, false, true)
	c.OnPull("a", 7*time.Second, 12<<20, nil)
	c.OnPull("a", 7*time.Second, 0, errBroken)
	m.Images.PluginConfig("sha256:1")
	has(t, m.all, "kubelet_credential_provider_config_info", "kubelet_credential_provider_config_info hash=sha256:1 1")
	has(t, m.all, "kubelet_image_manager_ensure_image_requests_total kubelet_image_pull_duration_seconds",
		"kubelet_image_manager_ensure_image_requests_total present_locally=false pull_policy=ifnotpresent pull_required=true 1",
		"kubelet_image_pull_duration_seconds image_size_in_bytes=10MB-100MB 1 7")
	const mega = 1 << 20
	for size, want := range map[uint64]string{0: "N/A", 1: "0-10MB", 10 * mega: "0-10MB", 10*mega + 1: "10MB-100MB", 600 * mega: "500MB-1GB", 99 << 30: "60GB-100GB", 1 << 40: "GT100GB"} {
		require.Equal(t, want, sizeClass(size), size)
	}
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t)
		c := m.Observer.Callbacks()
		c.OnList(0, 1, nil)
		time.Sleep(3 * time.Second)
		c.OnList(time.Second, 1, errBroken) // it began a second ago
		c.OnInspect(time.Second, nil)
		c.OnFold(1000)
		c.OnStale(4)
		for _, h := range []pleg.StreamHealth{{State: pleg.StreamClosed}, {State: pleg.StreamOpening}, {State: pleg.StreamOpen}, {State: pleg.StreamClosed, Err: errBroken}, {State: pleg.StreamUnsupported}} {
			c.OnStream(h)
		}
		has(t, m.all, "kubelet_pleg_relist_duration_seconds kubelet_pleg_relist_interval_seconds kubelet_pleg_pod_relist_duration_seconds kubelet_pleg_discard_events podwright_pleg_stale_pods kubelet_evented_pleg_connection_success_count kubelet_evented_pleg_connection_error_count",
			"kubelet_pleg_relist_duration_seconds 2 1", "kubelet_pleg_relist_interval_seconds 1 2", "kubelet_pleg_pod_relist_duration_seconds 1 1",
			"kubelet_pleg_discard_events 1000", "podwright_pleg_stale_pods 4", "kubelet_evented_pleg_connection_success_count 1", "kubelet_evented_pleg_connection_error_count 1")
	})
}

// The series of a probe are deleted with it; other series stay.
func TestProbes(t *testing.T) {
	m := newMetrics(t)
	c := m.Probes.Callbacks()
	of := func(uid string, kind probe.Type) probe.Series {
		return probe.Series{Type: kind, UID: types.UID(uid), Namespace: "ns", Pod: "p-" + uid, Container: "c"}
	}
	for _, verdict := range []probe.Verdict{probe.Success, probe.Warning, probe.Failure, probe.Unknown} {
		c.OnProbe(probe.Probed{Series: of("a", probe.Liveness), Verdict: verdict, Took: time.Second})
	}
	c.OnProbe(probe.Probed{Series: of("b", probe.Readiness), Verdict: probe.Failure})
	ofB := "prober_probe_total container=c namespace=ns pod=p-b pod_uid=b probe_type=Readiness result=failed 1"
	const a = "prober_probe_total container=c namespace=ns pod=p-a pod_uid=a probe_type=Liveness result="
	has(t, m.probes, "prober_probe_total prober_probe_duration_seconds", a+"successful 2", a+"failed 1", a+"unknown 1", ofB,
		"prober_probe_duration_seconds container=c namespace=ns pod=p-a probe_type=Liveness 3 3")
	c.OnRemove(of("a", probe.Liveness))
	has(t, m.probes, "prober_probe_total prober_probe_duration_seconds", ofB)
}

func TestVolumes(t *testing.T) {
	m := newMetrics(t)
	c := m.Volumes.Callbacks()
	c.OnOperation(manager.Operation{Name: "volume_mount", Plugin: "p", Took: time.Second})
	c.OnOperation(manager.Operation{Name: "volume_unmount", Plugin: "p", Took: time.Second, Forced: true, Err: errBroken})
	c.OnReady("p", 2*time.Second)
	c.OnFound("p", true)
	c.OnFound("p", false)
	m.Volumes.CSI().OnCall(csi.Call{Driver: "d", Method: "NodePublishVolume", Took: time.Second, Err: fmt.Errorf("call: %w", status.Error(codes.NotFound, ""))})
	m.Volumes.CSI().OnCall(csi.Call{Driver: "d", Method: "NodePublishVolume", Err: errBroken})
	m.Volumes.CSI().OnCall(csi.Call{Driver: "d", Method: "NodePublishVolume"})
	const call = "csi_operations_seconds driver_name=d grpc_status_code=%s method_name=/csi.v1.Node/NodePublishVolume migrated=false 1 %d"
	has(t, m.all, "storage_operation_duration_seconds volume_operation_total_seconds reconstruct_volume_operations_total reconstruct_volume_operations_errors_total force_cleaned_failed_volume_operations_total force_cleaned_failed_volume_operation_errors_total csi_operations_seconds",
		"storage_operation_duration_seconds migrated=false operation_name=volume_mount status=success volume_plugin=p 1 1",
		"storage_operation_duration_seconds migrated=false operation_name=volume_unmount status=fail-unknown volume_plugin=p 1 1",
		"volume_operation_total_seconds operation_name=overall_volume_mount plugin_name=p 1 2",
		"reconstruct_volume_operations_total 2", "reconstruct_volume_operations_errors_total 1",
		"force_cleaned_failed_volume_operations_total 1", "force_cleaned_failed_volume_operation_errors_total 1",
		fmt.Sprintf(call, "NotFound", 1), fmt.Sprintf(call, "unknown-non-grpc", 0), fmt.Sprintf(call, "OK", 0))
}

func TestCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t)
		at, unusable := time.Time{}, error(nil)
		require.NoError(t, m.Follow(Live{ServingExpires: func() time.Time { return at }, ClientExpires: func() time.Time { return time.Now().Add(-time.Hour) }, Credential: func() error { return unusable }}))
		has(t, m.all, "podwright_api_credential_ok", "podwright_api_credential_ok 1")
		unusable = errBroken
		has(t, m.all, "podwright_api_credential_ok", "podwright_api_credential_ok 0")
		const ttl = "kubelet_certificate_manager_server_ttl_seconds"
		has(t, m.all, ttl, ttl+" +Inf")
		at = time.Now().Add(90 * time.Second)
		has(t, m.all, ttl+" kubelet_certificate_manager_client_ttl_seconds", ttl+" 90", "kubelet_certificate_manager_client_ttl_seconds -3600")
		m.Certificates.Serving.Rotated(time.Hour)
		m.Certificates.Client.Rotated(time.Hour) // there is no metric for it
		m.Certificates.Serving.Failed(errBroken)
		m.Certificates.Client.Failed(errBroken)
		has(t, m.all, "kubelet_certificate_manager_server_rotation_seconds kubelet_server_expiration_renew_errors kubelet_certificate_manager_client_expiration_renew_errors",
			"kubelet_certificate_manager_server_rotation_seconds 1 3600", "kubelet_server_expiration_renew_errors 1", "kubelet_certificate_manager_client_expiration_renew_errors 1")
	})
}

func TestCgroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t)
		k := m.Cgroups.Count(&kernel.Memory{})
		name := cgroups.Name{"kubepods"}
		for range 2 {
			require.NoError(t, k.Set(t.Context(), name, cgroups.Values{}))
		}
		require.NoError(t, k.Remove(t.Context(), name))
		const took = "kubelet_cgroup_manager_duration_seconds"
		has(t, m.all, took, took+" operation_type=create 1 0", took+" operation_type=update 1 0", took+" operation_type=destroy 1 0")
	})
}

func TestServers(t *testing.T) {
	m := newMetrics(t)
	h := m.Servers.Count(ReadWrite, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics/probes" {
			has(t, m.all, "kubelet_http_inflight_requests", "kubelet_http_inflight_requests long_running=false method=GET path=metrics/probes server_type=readwrite 1")
		}
		if r.URL.Path == "/boom" {
			panic(http.ErrAbortHandler)
		}
	}))
	for _, path := range []string{"/metrics/probes", "/metrics/" + strings.Repeat("x", 99), "/containerLogs/ns/pod/c", "/", "/../etc"} {
		h.ServeHTTP(httptest.NewRecorder(), &http.Request{Method: "GET", URL: &url.URL{Path: path}})
	}
	require.Panics(t, func() { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("BREW", "/boom", nil)) })
	session := httptest.NewRequest("POST", "/exec/ns/p/c", nil)
	session.Header.Set("Upgrade", "WebSocket")
	h.ServeHTTP(httptest.NewRecorder(), session)
	const one = "kubelet_http_requests_total long_running=%t method=%s path=%s server_type=readwrite %d"
	has(t, m.all, "kubelet_http_requests_total kubelet_websocket_streaming_requests_total",
		fmt.Sprintf(one, false, "GET", "metrics/probes", 1), fmt.Sprintf(one, false, "GET", "other", 3), fmt.Sprintf(one, false, "GET", "containerLogs", 1),
		fmt.Sprintf(one, false, "other", "other", 1), fmt.Sprintf(one, true, "POST", "exec", 1), "kubelet_websocket_streaming_requests_total subresource=exec 1")
	families, err := m.all.Gather()
	require.NoError(t, err)
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "kubelet_http_requests_duration_seconds" })
	require.Len(t, families[i].GetMetric(), 5, "also after a panic")
}

func TestClient(t *testing.T) {
	m := newMetrics(t)
	for _, err := range []error{nil, errBroken} {
		transport := m.Client.Count(roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 404}, err
		}))
		r := httptest.NewRequest("PATCH", "https://h:1/api", strings.NewReader("four"))
		_, got := transport.RoundTrip(r)
		require.ErrorIs(t, got, err)
		require.NotNil(t, transport.(interface{ WrappedRoundTripper() http.RoundTripper }).WrappedRoundTripper())
	}
	has(t, m.all, "rest_client_requests_total rest_client_request_size_bytes",
		"rest_client_requests_total code=404 host=h:1 method=PATCH 1", "rest_client_requests_total code=<error> host=h:1 method=PATCH 1",
		"rest_client_request_size_bytes host=h:1 verb=PATCH 2 8")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Only requested compression is used, and OpenMetrics is not offered, as upstream.
func TestHandlers(t *testing.T) {
	m := newMetrics(t)
	require.NoError(t, m.Follow(Live{Health: func() map[string]error { return map[string]error{"ping": nil, "syncloop": errBroken} }}))
	ask := func(h http.Handler, encoding string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Accept-Encoding", encoding)
		r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Header().Get("Content-Type"), "text/plain; version=0.0.4")
		return w
	}
	for _, name := range []string{"go_goroutines", "process_cpu_seconds_total", "process_start_time_seconds", "kubernetes_build_info"} {
		require.Contains(t, ask(m.Handler(), "").Body.String(), "\n"+name, name)
	}
	zipped := ask(m.Handler(), "gzip")
	require.Equal(t, "gzip", zipped.Header().Get("Content-Encoding"))
	reader, err := gzip.NewReader(zipped.Body)
	require.NoError(t, err)
	text, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.Contains(t, string(text), "kubelet_node_name")
	require.Contains(t, ask(m.ProbesHandler(), "").Body.String(), "process_start_time_seconds")
	slis := ask(m.SLIsHandler(), "").Body.String()
	for _, line := range []string{
		`kubernetes_healthcheck{name="ping",type="healthz"} 1`, `kubernetes_healthcheck{name="syncloop",type="healthz"} 0`,
		`kubernetes_healthchecks_total{name="syncloop",status="error",type="healthz"} 1`,
	} {
		require.Contains(t, slis, line)
	}
}

func TestPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t)
		p, now := m.Pods, time.Now()
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: make([]v1.Container, 3)}}
		call := func(c podworkers.Call, kind podworkers.UpdateType, seen time.Time) {
			p.Called(podworkers.CallDone{Call: c, Type: kind, Pod: pod, Seen: seen, Began: now.Add(time.Second), Ended: now.Add(3 * time.Second)})
		}
		call(podworkers.CallSyncPod, podworkers.UpdateCreate, now)
		call(podworkers.CallSyncPod, podworkers.UpdateSync, time.Time{}) // without an update
		call(podworkers.CallSyncTerminatingPod, podworkers.UpdateKill, now)
		call(podworkers.CallSyncTerminatedPod, podworkers.UpdateKill, now)
		call(podworkers.CallSyncTerminatingOrphan, "", time.Time{})
		c := p.Callbacks()
		c.OnSandboxStart("", 0, nil)
		c.OnSandboxStart("kata", time.Second, errBroken)
		c.OnContainerStart(pods.KindInit, "")
		c.OnContainerStart(pods.KindRegular, "RunContainerError")
		c.OnResize(30*time.Millisecond, nil)
		p.Hooks().OnHTTPFallback()
		p.Hooks().OnSleepTerminatedEarly()
		s := p.Statuses("api")
		s.OnSynced("api", time.Second)
		s.OnSynced("file", time.Hour)
		s.OnTerminated("containers", &v1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"})
		s.OnCall("api", "patch", time.Second, nil)
		p.Rejected("HostPort")
		p.Restarted(&v1.Pod{})
		p.Rotated(logs.Rotation{Err: errBroken})
		has(t, m.all, `kubelet_pod_worker_duration_seconds kubelet_pod_worker_start_duration_seconds kubelet_containers_per_pod_count kubelet_orphaned_runtime_pods_total
			kubelet_started_pods_total kubelet_started_pods_errors_total kubelet_run_podsandbox_duration_seconds kubelet_run_podsandbox_errors_total
			kubelet_started_containers_total kubelet_started_containers_errors_total kubelet_pod_resize_duration_milliseconds
			kubelet_lifecycle_handler_http_fallbacks_total kubelet_sleep_action_terminated_early_total kubelet_pod_status_sync_duration_seconds
			kubelet_terminated_containers_total podwright_status_call_duration_seconds kubelet_admission_rejections_total kubelet_restarted_pods_total podwright_log_rotations_total`,
			"kubelet_pod_worker_duration_seconds operation_type=create 1 3", "kubelet_pod_worker_duration_seconds operation_type=kill 1 3",
			"kubelet_pod_worker_duration_seconds operation_type=terminated 1 3", "kubelet_pod_worker_start_duration_seconds 1 1", "kubelet_containers_per_pod_count 1 3",
			"kubelet_orphaned_runtime_pods_total 1", "kubelet_started_pods_total 2", "kubelet_started_pods_errors_total 1",
			"kubelet_run_podsandbox_duration_seconds runtime_handler= 1 0", "kubelet_run_podsandbox_duration_seconds runtime_handler=kata 1 1", "kubelet_run_podsandbox_errors_total runtime_handler=kata 1",
			"kubelet_started_containers_total container_type=init_container 1", "kubelet_started_containers_total container_type=container 1",
			"kubelet_started_containers_errors_total code=RunContainerError container_type=container 1", "kubelet_pod_resize_duration_milliseconds success=true 1 30",
			"kubelet_lifecycle_handler_http_fallbacks_total 1", "kubelet_sleep_action_terminated_early_total 1", "kubelet_pod_status_sync_duration_seconds 1 1",
			"kubelet_terminated_containers_total container_type=containers exit_code=3 reason=Error 1", "podwright_status_call_duration_seconds call=patch sink=api 1 1",
			"kubelet_admission_rejections_total reason=HostPort 1", "kubelet_restarted_pods_total static= 1", "kubelet_restarted_pods_total static=true 0",
			"podwright_log_rotations_total success=false 1")
	})
}

// The start of a pod excludes waits that the kubelet cannot influence.
func TestStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t)
		p, statuses := m.Pods, map[types.UID]*v1.PodStatus{}
		require.NoError(t, m.Follow(Live{Status: func(uid types.UID) *v1.PodStatus { return statuses[uid] }}))
		pod := func(uid types.UID) *v1.Pod {
			return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, CreationTimestamp: metav1.Now()}}
		}
		syncing := func(uid types.UID) {
			p.Moved(podworkers.Transition{UID: uid, To: podworkers.StateSyncing, At: time.Now()})
		}
		runs := func(at time.Time) v1.PodStatus {
			return v1.PodStatus{Phase: v1.PodRunning, StartTime: &metav1.Time{Time: at}, ContainerStatuses: []v1.ContainerStatus{{State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}}}}}
		}
		// A pod started by an earlier agent is not counted.
		status := runs(time.Now().Add(-time.Hour))
		syncing("old")
		statuses["old"] = &status
		p.StatusChanged("old")

		started := pod("new")
		p.AtAPI(started)
		syncing("new")
		from := time.Now()
		time.Sleep(10 * time.Second)
		p.Waited("new", from, time.Now())
		p.Waited("new", from.Add(5*time.Second), time.Now()) // at the same time
		initial := metav1.Now()
		time.Sleep(5 * time.Second)
		status = runs(time.Now())
		status.InitContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{StartedAt: initial, FinishedAt: metav1.Now()}}}}
		statuses["new"] = &status
		for range 2 {
			p.StatusChanged("new")
		}
		time.Sleep(time.Second)
		started = started.DeepCopy()
		started.Status = status
		for range 2 {
			p.AtAPI(started)
		}
		has(t, m.all, "kubelet_pod_start_duration_seconds kubelet_pod_start_total_duration_seconds kubelet_pod_start_sli_duration_seconds kubelet_first_network_pod_start_sli_duration_seconds",
			"kubelet_pod_start_duration_seconds 1 15", "kubelet_pod_start_total_duration_seconds 1 16", "kubelet_pod_start_sli_duration_seconds 1 1", "kubelet_first_network_pod_start_sli_duration_seconds 1")

		// Pods that end leave no entry.
		for _, uid := range []types.UID{"old", "new"} {
			p.Moved(podworkers.Transition{UID: uid, To: podworkers.StateTerminationRequested})
		}
		require.Empty(t, p.starts.pods)
		for i := range 3 * manyCreated { // nor do pods that never start
			p.AtAPI(pod(types.UID(fmt.Sprint(i))))
		}
		require.LessOrEqual(t, len(p.starts.created), manyCreated)
		refused := pod("refused")
		p.AtAPI(refused)
		refused.Status.Phase = v1.PodFailed
		p.AtAPI(refused)
		require.NotContains(t, p.starts.created, types.UID("refused"))
	})
}

// Current state is read at each scrape.
func TestLive(t *testing.T) {
	m := newMetrics(t)
	static := map[string]string{"kubernetes.io/config.source": "file"}
	pod := func(annotations map[string]string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: annotations}, Spec: v1.PodSpec{EphemeralContainers: make([]v1.EphemeralContainer, 1)}}
	}
	var here bool
	desired := func() []*v1.Pod {
		if !here {
			return nil
		}
		return []*v1.Pod{pod(static), pod(nil), pod(nil)}
	}
	require.NoError(t, m.Follow(Live{
		Workers: func() []podworkers.PodState {
			return []podworkers.PodState{
				{State: podworkers.StateSyncing, Static: true}, {State: podworkers.StateTerminating, Undesired: true}, {State: podworkers.StateTerminated},
				{State: podworkers.StateTerminationRequested, RuntimeOnly: true}, {State: podworkers.StateFinished},
			}
		},
		Desired: desired, Active: func() []*v1.Pod { return desired()[:min(1, len(desired()))] }, Mirrors: desired,
		Observed: func() []observed.ListedPod {
			return []observed.ListedPod{
				{Sandboxes: []observed.ListedSandbox{{State: observed.SandboxReady}, {State: observed.SandboxReady}}, Containers: []observed.ListedContainer{{State: observed.StateRunning}, {State: observed.StateExited}}},
				{Sandboxes: []observed.ListedSandbox{{State: observed.SandboxNotReady}}, Containers: []observed.ListedContainer{{State: observed.StateExited}}},
			}
		},
		ListedAt: func() time.Time { return time.Unix(7, 0) },
		Volumes: func() map[manager.Count]int {
			return map[manager.Count]int{{Plugin: "p", State: manager.StateNotMounted, Wanted: true}: 2, {Plugin: "p", State: manager.StateNotMounted + 1}: 3}
		},
		Status: func(types.UID) *v1.PodStatus {
			return &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodResizeInProgress}, {Type: v1.PodResizePending, Reason: "Deferred"}}}
		},
	}))
	const working = "kubelet_working_pods"
	zero := func(config, lifecycle, static string, n int) string {
		return fmt.Sprintf("%s config=%s lifecycle=%s static=%s %d", working, config, lifecycle, static, n)
	}
	var want []string
	for _, lifecycle := range []string{"sync", "terminating", "terminated"} {
		for _, static := range []string{"", "true"} {
			want = append(want, zero("desired", lifecycle, static, b2i(lifecycle == "sync" && static != "" || lifecycle == "terminated" && static == "")))
			want = append(want, zero("orphan", lifecycle, static, b2i(lifecycle == "terminating" && static == "")))
		}
		want = append(want, zero("runtime_only", lifecycle, "unknown", b2i(lifecycle == "terminating")))
	}
	has(t, m.all, working, want...)
	has(t, m.all, "kubelet_running_pods kubelet_running_containers kubelet_pleg_last_seen_seconds volume_manager_total_volumes",
		"kubelet_running_pods 1", "kubelet_running_containers container_state=running 1", "kubelet_running_containers container_state=exited 2", "kubelet_pleg_last_seen_seconds 7",
		"volume_manager_total_volumes plugin_name=p state=actual_state_of_world 3", "volume_manager_total_volumes plugin_name=p state=desired_state_of_world 2")
	const names = "kubelet_desired_pods kubelet_active_pods kubelet_mirror_pods kubelet_managed_ephemeral_containers kubelet_pod_in_progress_resizes kubelet_pod_pending_resizes"
	has(t, m.all, names, "kubelet_desired_pods static= 0", "kubelet_desired_pods static=true 0", "kubelet_active_pods static= 0", "kubelet_active_pods static=true 0",
		"kubelet_mirror_pods 0", "kubelet_managed_ephemeral_containers 0", "kubelet_pod_in_progress_resizes 0")
	here = true
	has(t, m.all, names, "kubelet_desired_pods static= 2", "kubelet_desired_pods static=true 1", "kubelet_active_pods static= 0", "kubelet_active_pods static=true 1",
		"kubelet_mirror_pods 3", "kubelet_managed_ephemeral_containers 3", "kubelet_pod_in_progress_resizes 3", "kubelet_pod_pending_resizes reason=deferred 3")
}

func b2i(is bool) int { return int(boolValue(is)) }

func TestEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t)
		m.Evictions.Evicted(eviction.Victim{Signal: eviction.MemoryAvailable, Measured: time.Now().Add(-2 * time.Second)})
		m.Evictions.Evicted(eviction.Victim{Signal: eviction.EmptyDirLimit})
		has(t, m.all, "kubelet_evictions kubelet_eviction_stats_age_seconds",
			"kubelet_evictions eviction_signal=memory.available 1", "kubelet_evictions eviction_signal=emptydirfs.limit 1",
			"kubelet_eviction_stats_age_seconds eviction_signal=memory.available 1 2")
	})
}

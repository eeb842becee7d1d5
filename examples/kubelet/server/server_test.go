package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixed struct {
	pods   []v1.Pod
	notes  []string
	err    error
	report Report
	checks []Check
}

func (f fixed) Pods() ([]v1.Pod, []string, error) { return f.pods, f.notes, f.err }
func (f fixed) Report() Report                    { return f.report }
func (f fixed) Health() []Check                   { return f.checks }

func get(h http.Handler, path, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHealthz(t *testing.T) {
	ok := get(Healthz(fixed{checks: []Check{{Name: "runtime", OK: true}}}), "/healthz", "")
	require.Equal(t, http.StatusOK, ok.Code)
	require.Equal(t, "ok", ok.Body.String())

	bad := get(Healthz(fixed{checks: []Check{{Name: "runtime", Message: "no answer for 7s"}}}), "/healthz", "")
	require.Equal(t, http.StatusInternalServerError, bad.Code)
	require.Equal(t, "[-]runtime failed: no answer for 7s\n", bad.Body.String())
	require.Equal(t, http.StatusNotFound, get(Healthz(fixed{}), "/pods", "").Code)
}

// What a list of pods cannot tell stands beside it.
func TestPodsWithNotes(t *testing.T) {
	w := get(ReadOnly(fixed{notes: []string{`source "a" is silent`, "two"}}), "/pods", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, []string{`299 - "source \"a\" is silent"`, `299 - "two"`}, w.Header().Values("Warning"))
}

func TestPodsIsAPodList(t *testing.T) {
	s := fixed{pods: []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1.PodStatus{Phase: v1.PodRunning}}}}
	for _, path := range []string{"/pods", "/pods/"} {
		w := get(ReadOnly(s), path, "")
		var list v1.PodList
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
		require.Equal(t, "PodList", list.Kind)
		require.Equal(t, "v1", list.APIVersion)
		require.Equal(t, v1.PodRunning, list.Items[0].Status.Phase)
	}
}

// What is not known is not an empty list.
func TestPodsThatAreNotKnown(t *testing.T) {
	w := get(ReadOnly(fixed{err: errors.New("not connected yet")}), "/pods", "")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "not connected yet\n", w.Body.String())
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	w = get(ReadOnly(fixed{pods: []v1.Pod{}}), "/pods", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"items":[]`)
}

func TestStatuszForProgramsAndPeople(t *testing.T) {
	retry := time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC)
	asked := retry.Add(-30 * time.Second)
	s := fixed{report: Report{
		Node: "n", Time: retry.Add(-10 * time.Second),
		Pods: []PodReport{{
			Namespace: "default", Name: "a", Worker: "Syncing", Since: retry.Add(-time.Minute),
			LastError: "<b>no</b>", NextRetry: &retry, WaitsFor: "retry",
			NotReady: "ContainersNotReady: [c]",
			Probes: []ProbeReport{{
				Container: "c", Type: "Readiness", Handler: "httpGet", State: "Scheduled", Why: "why it waits", Next: &retry, Period: 10, Timeout: 1,
				Result: "Failure", Consecutive: 2, Threshold: 3, Last: "Failure", LastAt: &asked, LastTook: 0.5, Output: "<i>503",
			}},
			Volumes: []VolumeReport{
				{Name: "fine", Plugin: "kubernetes.io/secret", State: "Mounted", Ready: true},
				{Name: "conf", Plugin: "kubernetes.io/configmap", State: "NotMounted", WaitsFor: "the next try", LastError: "<conf> not found", NextTry: &retry},
				{Name: "nfs", Plugin: "kubernetes.io/nfs", State: "Uncertain", WaitsFor: "mount", Operation: "volume_mount", RunningSince: &asked, Stuck: true},
			},
			Containers: []ContainerReport{{Name: "c", State: "waiting", Reason: "CrashLoopBackOff", Restarts: 3, LastEnd: "exit code 7 (Error)"}},
		}},
		Manifests: []ManifestProblem{{Path: "/m/bad.yaml", Message: "kind: missing", KeptPrevious: true}},
		Objects:   []ObjectProblem{{Path: "/o/bad.yaml", Message: "data: unknown", KeptPrevious: true}},
		Probers: []ProberReport{
			{Handler: "exec", Budget: 10, Running: 10, Slow: 7, Stuck: 1, Queued: 4, Late: 2.5},
			{Handler: "httpGet", Budget: 24, Running: 3},
		},
	}}
	var got Report
	require.NoError(t, json.Unmarshal(get(ReadOnly(s), "/statusz/pods", "*/*").Body.Bytes(), &got))
	require.Equal(t, s.report, got)

	page := get(ReadOnly(s), "/statusz/pods", "text/html,application/xhtml+xml").Body.String()
	for _, want := range []string{"default/a", "CrashLoopBackOff", "3 restarts", "ended before: exit code 7 (Error)", "in 10s", "50s", "waits for retry", "not ready: ContainersNotReady: [c]", "c, Readiness by httpGet", "why it waits", "last Failure 20s ago, 2 of 3: &lt;i&gt;503", "exec probes: 10 of 10 run, 7 of them slow, 1 stuck; 4 wait, up to 2.5 s", "volume conf waits for the next try: ", "&lt;conf&gt; not found", "volume nfs waits for mount (volume_mount, for 20s)", "/o/bad.yaml", "is used", "/m/bad.yaml", "keeps running", "&lt;b&gt;no"} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "<b>no")
	require.NotContains(t, page, "volume fine", "nothing is to be done about it")
	require.NotContains(t, page, "httpGet probes", "nothing waits there")
	require.Contains(t, get(ReadOnly(s), "/statusz/pods?format=html", "").Body.String(), "<html")
	require.Equal(t, "application/json", get(ReadOnly(s), "/statusz/pods?format=json", "text/html").Header().Get("Content-Type"))
}

func TestRootLeadsToThePage(t *testing.T) {
	w := get(ReadOnly(fixed{}), "/", "text/html")
	require.Equal(t, http.StatusFound, w.Code)
	require.Equal(t, "/statusz/pods", w.Header().Get("Location"))
	require.Equal(t, http.StatusNotFound, get(ReadOnly(fixed{}), "/nothing", "").Code)
}

func TestReadOnlyRefusesChanges(t *testing.T) {
	w := httptest.NewRecorder()
	ReadOnly(fixed{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/pods", nil))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Serve(ctx, l, Healthz(fixed{}), slog.New(slog.DiscardHandler)) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + l.Addr().String() + "/healthz")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "ok", string(body))
	cancel()
	require.NoError(t, <-done)
}

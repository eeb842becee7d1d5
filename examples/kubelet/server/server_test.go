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
	w := get(ReadOnly(fixed{notes: []string{`source "a" is silent`, "two"}}, Measures{}), "/pods", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, []string{`299 - "source \"a\" is silent"`, `299 - "two"`}, w.Header().Values("Warning"))
}

func TestPodsIsAPodList(t *testing.T) {
	s := fixed{pods: []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1.PodStatus{Phase: v1.PodRunning}}}}
	for _, path := range []string{"/pods", "/pods/"} {
		w := get(ReadOnly(s, Measures{}), path, "")
		var list v1.PodList
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
		require.Equal(t, "PodList", list.Kind)
		require.Equal(t, "v1", list.APIVersion)
		require.Equal(t, v1.PodRunning, list.Items[0].Status.Phase)
	}
}

// What is not known is not an empty list.
func TestPodsThatAreNotKnown(t *testing.T) {
	w := get(ReadOnly(fixed{err: errors.New("not connected yet")}, Measures{}), "/pods", "")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "not connected yet\n", w.Body.String())
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	w = get(ReadOnly(fixed{pods: []v1.Pod{}}, Measures{}), "/pods", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"items":[]`)
}

func TestRootLeadsToThePage(t *testing.T) {
	w := get(ReadOnly(fixed{}, Measures{}), "/", "text/html")
	require.Equal(t, http.StatusFound, w.Code)
	require.Equal(t, "/statusz/pods", w.Header().Get("Location"))
	require.Equal(t, http.StatusNotFound, get(ReadOnly(fixed{}, Measures{}), "/nothing", "").Code)
}

func TestReadOnlyRefusesChanges(t *testing.T) {
	w := httptest.NewRecorder()
	ReadOnly(fixed{}, Measures{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/pods", nil))
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

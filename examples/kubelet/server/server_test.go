package server

import (
	"encoding/json"
	"errors"
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

func TestPods(t *testing.T) {
	s := fixed{pods: []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1.PodStatus{Phase: v1.PodRunning}}}, notes: []string{`source "a" is silent`, "two"}}
	w := get(ReadOnly(s, Measures{}), "/pods", "")
	require.Equal(t, []string{`299 - "source \"a\" is silent"`, `299 - "two"`}, w.Header().Values("Warning"))
	var list v1.PodList
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
	require.Equal(t, metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, list.TypeMeta)
	require.Equal(t, v1.PodRunning, list.Items[0].Status.Phase)
}

// Unknown pods are an error, not an empty list.
func TestUnavailablePods(t *testing.T) {
	w := get(ReadOnly(fixed{err: errors.New("not connected yet")}, Measures{}), "/pods", "")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "not connected yet\n", w.Body.String())
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	w = get(ReadOnly(fixed{pods: []v1.Pod{}}, Measures{}), "/pods", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"items":[]`)
}

func TestRootRedirectsToThePage(t *testing.T) {
	require.Equal(t, "/statusz/pods", get(ReadOnly(fixed{}, Measures{}), "/", "text/html").Header().Get("Location"))
}

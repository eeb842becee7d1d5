package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/kubeletapi"
)

// recordedCalls implements Pods. It records calls and returns the results set by the test.
type recordedCalls struct {
	target  kubeletapi.Target
	command []string
	timeout time.Duration

	out string
	err error
}

func (a *recordedCalls) Run(_ context.Context, t kubeletapi.Target, command []string) ([]byte, error) {
	a.target, a.command = t, command
	return []byte(a.out), a.err
}

func (a *recordedCalls) Checkpoint(_ context.Context, t kubeletapi.Target, timeout time.Duration) (string, error) {
	a.target, a.timeout = t, timeout
	return a.out, a.err
}

func (a *recordedCalls) RunningPods(context.Context) ([]v1.Pod, error) {
	return []v1.Pod{{Spec: v1.PodSpec{Containers: []v1.Container{{Name: a.out}}}}}, a.err
}

func api(t testing.TB, change func(*APIConfig)) http.Handler {
	t.Helper()
	cfg := APIConfig{Source: fixed{}, Debugging: true, Containers: respondWith(http.StatusOK, "logs"), Commands: NewCommands(&recordedCalls{}), Profiling: true, SetVerbosity: func(int) {}, NodeLogs: respondWith(http.StatusOK, "logs")}
	cfg.Config = func() map[string]any { return map[string]any{"kubeletconfig": map[string]any{"maxPods": 7}} }
	cfg.Flags, cfg.Version = func() map[string]string { return map[string]string{"port": "1", "address": "a"} }, "v1.2.3+x"
	cfg.Measures = measures()
	if change != nil {
		change(&cfg)
	}
	h, err := NewAPI(cfg)
	require.NoError(t, err)
	return h
}

// measures returns handlers that write the requested path.
func measures() Measures {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) })
	return Measures{Summary: h, Metrics: h, CAdvisor: h, Resource: h, Probes: h, SLIs: h}
}

func do(h http.Handler, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader("6"))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAPIConfig(t *testing.T) {
	_, err := NewAPI(APIConfig{Debugging: true})
	require.EqualError(t, err, `server: APIConfig.Source is required
server: APIConfig.Containers is required
server: APIConfig.Commands is required`)
}

// Each measure is served at its path. A missing one returns 404 with a reason.
func TestMeasures(t *testing.T) {
	said := respondWith(http.StatusOK, "here")
	for path, m := range map[string]Measures{
		"/stats/summary": {Summary: said}, "/metrics": {Metrics: said}, "/metrics/cadvisor": {CAdvisor: said},
		"/metrics/resource": {Resource: said}, "/metrics/probes": {Probes: said}, "/metrics/slis": {SLIs: said},
	} {
		for _, h := range []http.Handler{ReadOnly(fixed{}, m), api(t, func(c *APIConfig) { c.Measures = m })} {
			for other := range m.paths() {
				w := do(h, http.MethodGet, other)
				if other == path {
					require.Equal(t, "here\n", w.Body.String(), path)
					continue
				}
				require.Equal(t, http.StatusNotFound, w.Code, other)
				require.Equal(t, "these metrics are not available on this kubelet\n", w.Body.String(), other)
			}
		}
	}
}

func TestEndpointsWithTheirOwnSwitch(t *testing.T) {
	for path, off := range map[string]func(*APIConfig){
		"GET /debug/pprof/ 405":  func(c *APIConfig) { c.Profiling = false },
		"GET /logs/ 405":         func(c *APIConfig) { c.NodeLogs = nil },
		"PUT /debug/flags/v 405": func(c *APIConfig) { c.SetVerbosity = nil },
		"GET /configz 404":       func(c *APIConfig) { c.Config = nil },
		"GET /flagz 404":         func(c *APIConfig) { c.Flags = nil },
		"GET /statusz 404":       func(c *APIConfig) { c.Version = "" },
	} {
		f := strings.Fields(path)
		require.Equal(t, f[2], strconv.Itoa(do(api(t, off), f[0], f[1]).Code), path)
	}
}

// Disabled endpoints respond with the texts of upstream kubelets.
func TestTextsOfDisabledEndpoints(t *testing.T) {
	for path, want := range map[string]string{
		"GET /debug/pprof/":  "profiling endpoint is disabled.\n",
		"GET /logs/":         "logs endpoint is disabled.\n",
		"PUT /debug/flags/v": "flags endpoint is disabled.\n",
	} {
		method, path, _ := strings.Cut(path, " ")
		off := func(c *APIConfig) { c.Profiling, c.NodeLogs, c.SetVerbosity = false, nil, nil }
		require.Equal(t, want, do(api(t, off), method, path).Body.String(), path)
		if method == http.MethodGet {
			none := api(t, func(c *APIConfig) { c.Debugging = false })
			require.Equal(t, "Debug endpoints are disabled.\n", do(none, method, path).Body.String(), path)
		}
	}
	require.Equal(t, "successfully set klog.logging.verbosity to 6", do(api(t, nil), http.MethodPut, "/debug/flags/v").Body.String())
}

// A path in another spelling is refused.
func TestUncleanPathsAreRefused(t *testing.T) {
	h := api(t, nil)
	for _, path := range []string{
		"/metrics/../exec/ns/p/c", "/metrics/%2e%2e/exec/ns/p/c", "/metrics%2f..%2fexec/ns/p/c", "//exec/ns/p/c", "/exec//p/c",
		"/./pods", "/logs/..%5c..%5cetc", "/logs/%252e%252e/%252fetc/../x", "/logs/a%00", "/exec/ns/p/c/..",
	} {
		require.Equal(t, http.StatusBadRequest, do(h, http.MethodGet, path).Code, path)
	}
}

// Errors keep their status codes.
func TestErrors(t *testing.T) {
	for err, code := range map[error]int{
		&kubeletapi.Refusal{Code: http.StatusNotFound, Message: "pod is not here"}:        http.StatusNotFound,
		&kubeletapi.Refusal{Code: http.StatusBadRequest, Message: "container is waiting"}: http.StatusBadRequest,
		errors.New("runtime is away"): http.StatusInternalServerError,
	} {
		h := api(t, func(c *APIConfig) { c.Commands = NewCommands(&recordedCalls{err: err}) })
		for path, method := range map[string]string{"/run/ns/p/c?cmd=ls": "POST", "/checkpoint/ns/p/c": "POST", "/runningpods/": "GET"} {
			w := do(h, method, path)
			require.Equal(t, code, w.Code, path)
			require.Equal(t, err.Error()+"\n", w.Body.String(), path)
		}
	}
}

// A31: checkpoints are created through the API.
func TestCheckpoint(t *testing.T) {
	p := &recordedCalls{out: "/var/lib/kubelet/checkpoints/a.tar"}
	h := api(t, func(c *APIConfig) { c.Commands = NewCommands(p) })
	require.JSONEq(t, `{"items":["/var/lib/kubelet/checkpoints/a.tar"]}`, do(h, http.MethodPost, "/checkpoint/ns/p/c?timeout=7").Body.String())
	require.Equal(t, 7*time.Second, p.timeout)
	for _, timeout := range []string{"-7", "-1", "0x10"} {
		require.Equal(t, http.StatusBadRequest, do(h, http.MethodPost, "/checkpoint/ns/p/c?timeout="+timeout).Code, timeout)
	}
}

func TestRun(t *testing.T) {
	p := &recordedCalls{out: "hello"}
	h := api(t, func(c *APIConfig) { c.Commands = NewCommands(p) })
	require.Equal(t, "hello", do(h, http.MethodPost, "/run/ns/p/uid/c?cmd=echo%20hello").Body.String())
	require.Equal(t, []string{"echo", "hello"}, p.command)
	require.Equal(t, kubeletapi.Target{Namespace: "ns", Pod: "p", UID: "uid", Container: "c"}, p.target)
	require.Equal(t, http.StatusBadRequest, do(h, http.MethodPost, "/run/ns/p/c").Code, "no command")
}

// A28: the verbosity is set through the API.
func TestVerbosity(t *testing.T) {
	got := -1
	h := api(t, func(c *APIConfig) { c.SetVerbosity = func(v int) { got = v } })
	require.Equal(t, http.StatusOK, do(h, http.MethodPut, "/debug/flags/v").Code)
	for _, body := range []string{"", "x", "-1", "1e3", strings.Repeat("1", 100)} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/debug/flags/v", strings.NewReader(body)))
		require.Equal(t, http.StatusBadRequest, w.Code, body)
	}
	require.Equal(t, 6, got)
}

func TestConfigz(t *testing.T) {
	require.JSONEq(t, `{"kubeletconfig":{"maxPods":7}}`, do(api(t, nil), http.MethodGet, "/configz").Body.String())
}

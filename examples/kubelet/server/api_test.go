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

// asked notes what it is asked, and answers with what it is told to.
type asked struct {
	target  kubeletapi.Target
	command []string
	timeout time.Duration

	out string
	err error
}

func (a *asked) Run(_ context.Context, t kubeletapi.Target, command []string) ([]byte, error) {
	a.target, a.command = t, command
	return []byte(a.out), a.err
}

func (a *asked) Checkpoint(_ context.Context, t kubeletapi.Target, timeout time.Duration) (string, error) {
	a.target, a.timeout = t, timeout
	return a.out, a.err
}

func (a *asked) RunningPods(context.Context) ([]v1.Pod, error) {
	return []v1.Pod{{Spec: v1.PodSpec{Containers: []v1.Container{{Name: a.out}}}}}, a.err
}

func api(t testing.TB, change func(*APIConfig)) http.Handler {
	t.Helper()
	cfg := APIConfig{Source: fixed{}, Debugging: true, Containers: answer(http.StatusOK, "logs"), Pods: &asked{}, Profiling: true, SetVerbosity: func(int) {}, NodeLogs: answer(http.StatusOK, "logs")}
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

// measures answers everywhere with the path that was asked for.
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
	for want, cfg := range map[string]APIConfig{
		"APIConfig.Source is required":     {},
		"APIConfig.Containers is required": {Source: fixed{}, Debugging: true, Pods: &asked{}},
		"APIConfig.Pods is required":       {Source: fixed{}, Debugging: true, Containers: http.NotFoundHandler()},
	} {
		_, err := NewAPI(cfg)
		require.ErrorContains(t, err, want)
	}
}

// A20, A26: what each server answers. 400 stands for a request that got to its handler
// and lacks what it needs.
func TestWhatIsServedWhere(t *testing.T) {
	full := api(t, nil)
	none := api(t, func(c *APIConfig) { c.Debugging = false })
	readOnly := ReadOnly(fixed{}, measures())
	for _, c := range []struct {
		request                      string
		full, debugOff, unprivileged int
	}{
		{"GET /healthz", 200, 200, 200},
		{"GET /pods", 200, 200, 200},
		{"GET /pods/", 200, 200, 200},
		{"GET /statusz/pods", 200, 200, 200},
		{"GET /stats/summary?only_cpu_and_memory=true", 200, 200, 200},
		{"GET /stats/", 404, 404, 404},
		{"GET /metrics", 200, 200, 200},
		{"GET /metrics/", 404, 404, 404},
		{"GET /metrics/cadvisor", 200, 200, 200},
		{"GET /metrics/resource", 200, 200, 200},
		{"GET /metrics/probes", 200, 200, 200},
		{"GET /metrics/slis", 200, 200, 200},
		{"POST /metrics/slis", 405, 405, 405},
		{"GET /metrics/nothing", 404, 404, 404},
		{"GET /exec/ns/p/c", 200, 405, 405},
		{"POST /exec/ns/p/uid/c", 200, 405, 405},
		{"DELETE /exec/ns/p/c", 405, 405, 405},
		{"GET /exec/", 200, 405, 405},
		{"POST /attach/ns/p/c", 200, 405, 405},
		{"POST /portForward/ns/p", 200, 405, 405},
		{"POST /run/ns/p/c", 400, 405, 405},
		{"GET /run/ns/p/c?cmd=ls", 405, 405, 405},
		{"GET /containerLogs/ns/p/c", 200, 405, 405},
		{"POST /containerLogs/ns/p/c", 405, 405, 405},
		{"GET /runningpods/", 200, 405, 405},
		{"GET /runningpods", 200, 405, 405},
		{"GET /logs/", 200, 405, 405},
		{"GET /logs/a/b", 200, 405, 405},
		{"GET /debug/pprof/", 200, 405, 405},
		{"GET /debug/pprof/cmdline", 200, 405, 405},
		{"PUT /debug/flags/v", 200, 404, 404},
		{"GET /configz", 200, 404, 404},
		{"GET /flagz", 200, 404, 404},
		{"GET /flagz/", 404, 404, 404},
		{"POST /flagz", 405, 404, 404},
		{"GET /statusz", 200, 404, 404},
		{"GET /statusz/pods/ns/p", 404, 404, 404},
		{"GET /debug/flags/v", 405, 404, 404},
		{"POST /checkpoint/ns/p/c", 200, 404, 404},
		{"GET /nothing", 404, 404, 404},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		require.Equal(t, c.full, do(full, method, path).Code, c.request)
		require.Equal(t, c.debugOff, do(none, method, path).Code, "%s without debugging handlers", c.request)
		require.Equal(t, c.unprivileged, do(readOnly, method, path).Code, "%s on the read-only port", c.request)
	}
}

// Each is served by itself, and what is not there says so.
func TestMeasures(t *testing.T) {
	said := answer(http.StatusOK, "here")
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
				require.Equal(t, "this kubelet does not measure that\n", w.Body.String(), other)
			}
		}
	}
}

func TestSwitchesOfTheirOwn(t *testing.T) {
	for path, off := range map[string]func(*APIConfig){
		"GET /debug/pprof/ 405":  func(c *APIConfig) { c.Profiling = false },
		"GET /logs/ 405":         func(c *APIConfig) { c.NodeLogs = nil },
		"PUT /debug/flags/v 404": func(c *APIConfig) { c.SetVerbosity = nil },
		"GET /configz 404":       func(c *APIConfig) { c.Config = nil },
		"GET /flagz 404":         func(c *APIConfig) { c.Flags = nil },
		"GET /statusz 404":       func(c *APIConfig) { c.Version = "" },
	} {
		f := strings.Fields(path)
		require.Equal(t, f[2], strconv.Itoa(do(api(t, off), f[0], f[1]).Code), path)
	}
}

// A path means what it says, or nothing.
func TestOtherSpellings(t *testing.T) {
	h := api(t, nil)
	for _, path := range []string{
		"/metrics/../exec/ns/p/c", "/metrics/%2e%2e/exec/ns/p/c", "/metrics%2f..%2fexec/ns/p/c", "//exec/ns/p/c", "/exec//p/c",
		"/./pods", "/logs/..%5c..%5cetc", "/logs/%252e%252e/%252fetc/../x", "/logs/a%00", "/exec/ns/p/c/..",
	} {
		require.Equal(t, http.StatusBadRequest, do(h, http.MethodGet, path).Code, path)
	}
}

// Errors keep the status that they bring.
func TestErrors(t *testing.T) {
	for err, code := range map[error]int{
		&kubeletapi.Refusal{Code: http.StatusNotFound, Message: "pod is not here"}:        http.StatusNotFound,
		&kubeletapi.Refusal{Code: http.StatusBadRequest, Message: "container is waiting"}: http.StatusBadRequest,
		errors.New("runtime is away"): http.StatusInternalServerError,
	} {
		h := api(t, func(c *APIConfig) { c.Pods = &asked{err: err} })
		for _, request := range []string{"POST /run/ns/p/c?cmd=ls", "POST /checkpoint/ns/p/c", "GET /runningpods/"} {
			method, path, _ := strings.Cut(request, " ")
			if w := do(h, method, path); request != "" {
				require.Equal(t, code, w.Code, request)
				require.Equal(t, err.Error()+"\n", w.Body.String(), request)
			}
		}
	}
}

// A31
func TestCheckpoint(t *testing.T) {
	p := &asked{out: "/var/lib/kubelet/checkpoints/a.tar"}
	w := do(api(t, func(c *APIConfig) { c.Pods = p }), http.MethodPost, "/checkpoint/ns/p/c?timeout=7")
	require.JSONEq(t, `{"items":["/var/lib/kubelet/checkpoints/a.tar"]}`, w.Body.String())
	require.Equal(t, 7*time.Second, p.timeout)
	require.Equal(t, http.StatusBadRequest, do(api(t, nil), http.MethodPost, "/checkpoint/ns/p/c?timeout=-7").Code)
}

func TestRun(t *testing.T) {
	p := &asked{out: "hello"}
	w := do(api(t, func(c *APIConfig) { c.Pods = p }), http.MethodPost, "/run/ns/p/uid/c?cmd=echo%20hello")
	require.Equal(t, "hello", w.Body.String())
	require.Equal(t, []string{"echo", "hello"}, p.command)
	require.Equal(t, kubeletapi.Target{Namespace: "ns", Pod: "p", UID: "uid", Container: "c"}, p.target)
}

// A28
func TestVerbosity(t *testing.T) {
	got := -1
	h := api(t, func(c *APIConfig) { c.SetVerbosity = func(v int) { got = v } })
	require.Equal(t, http.StatusOK, do(h, http.MethodPut, "/debug/flags/v").Code)
	require.Equal(t, 6, got)
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

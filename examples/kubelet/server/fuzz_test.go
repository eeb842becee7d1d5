package server

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/kubeletapi"
	"github.com/podwright/podwright/cri/logs"
)

// FuzzRequests sends request lines with parameters of all kinds: no request crashes the handler or
// causes a 5xx, and calls about pods have valid parameters and the pod of the path.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		"GET /containerLogs/ns/p/c?tailLines=-1&limitBytes=0&sinceSeconds=9223372036854775807&sinceTime=x&stream=All&follow&previous=2",
		"GET /containerLogs/ns/p/c?tailLines=99999999999999999999&limitBytes=-9223372036854775808&timestamps=%00",
		"GET /containerLogs/ns/p/c?tailLines=1e9", "GET /containerLogs/ns/p/c?sinceSeconds=-0.5", "GET /containerLogs/ns/p/c?sinceTime=never",
		"GET /containerLogs/ns/p/c?sinceTime=9999-12-31T23:59:59Z&sinceSeconds=1", "GET /containerLogs/ns/p/c?sinceTime=2026-01-02T03:04:05%2B99:99",
		"POST /exec/ns/p/c?command=%00&command=&input=0&output=1&error=false&tty=yes", "GET /exec/ns/p/uid/c?stdin=1&stdout&stderr=1&command=a%0ab",
		"POST /attach/ns/p/c?input=1", "GET /portForward/ns/p?port=-1&port=0,65536,,1e3&port=80", "POST /portForward/ns/p/uid?port=1,2,3",
		"POST /run/ns/p/c?cmd=ls%20-l", "POST /run/ns/p/c?cmd=", "POST /checkpoint/ns/p/c?timeout=-7", "POST /checkpoint/ns/p/c?timeout=9223372036854775807",
		"GET /statusz/pods?format=html", "GET /statusz/pods/ns/p?uid=%3Cscript%3E&format=xml", "GET /pods?limit=-1", "GET /stats/summary?only_cpu_and_memory=maybe",
		"GET /healthz/%2e%2e", "GET /containerLogs/../../c", "GET /containerLogs/a%2fb/c/d", "GET /containerLogs/%252e%252e/p/c", "GET /flagz?%zz", "GET /?;;;=&&&",
		"PUT /debug/flags/v?x=1", "GET /debug/pprof/heap?debug=-1&seconds=-1", "HEAD /configz", "PATCH /exec/ns/p/c",
	} {
		f.Add(seed, "")
		f.Add(seed, "text/html;q=x, application/json;as=Flagz;v=v1beta1;g=config.k8s.io")
	}
	f.Fuzz(func(t *testing.T, line, accept string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + " HTTP/1.1\r\nHost: node\r\n\r\n")))
		if err != nil || strings.HasPrefix(r.URL.Path, "/debug/pprof/") { // profiles take as long as requested
			return
		}
		r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}, "X-Stream-Protocol-Version": {"v4.channel.k8s.io"}, "Accept": {accept}}
		p, c := &recordedCalls{}, &reached{}
		w := httptest.NewRecorder()
		api(t, func(cfg *APIConfig) {
			cfg.Commands, cfg.Containers, cfg.Source = NewCommands(p), c.handler(t), fixed{report: aReport()}
		}).ServeHTTP(w, r)
		require.Less(t, w.Code, 500, "%q: %s", line, w.Body)
		if tail := c.options.TailLines; tail != nil {
			require.GreaterOrEqual(t, *tail, int64(0))
		}
		require.GreaterOrEqual(t, c.options.LimitBytes, int64(0))
		require.False(t, c.options.Since < 0 || p.timeout < 0)
		for _, port := range c.ports {
			require.True(t, 1 <= port && port <= 65535, port)
		}
		for _, target := range append(c.targets, p.target) {
			if target != (kubeletapi.Target{}) {
				segments := strings.Split(r.URL.Path, "/")
				require.Equal(t, []string{target.Namespace, target.Pod}, segments[2:4])
			}
		}
	})
}

// reached records calls about pods. It serves no sessions.
type reached struct {
	cri.Streamer
	targets []kubeletapi.Target
	options logs.Options
	ports   []int32
}

func (c *reached) handler(t testing.TB) http.Handler {
	h, err := kubeletapi.New(kubeletapi.Config{Allow: func(*http.Request) error { return nil }, Pods: c, Runtime: c, Logs: c})
	require.NoError(t, err)
	return h
}

var errNoSession = &kubeletapi.Refusal{Code: http.StatusTeapot}

func (c *reached) RunningContainer(_ context.Context, t kubeletapi.Target) (kubeletapi.Container, error) {
	c.targets = append(c.targets, t)
	return kubeletapi.Container{ID: "id"}, nil
}

func (c *reached) RunningSandbox(_ context.Context, t kubeletapi.Target) (string, error) {
	c.targets = append(c.targets, t)
	return "id", nil
}

func (c *reached) Log(_ context.Context, t kubeletapi.Target, _ bool) (logs.Log, error) {
	c.targets = append(c.targets, t)
	return logs.Log{}, nil
}

func (c *reached) Read(_ context.Context, _ logs.Log, o logs.Options, _, _ io.Writer) error {
	c.options = o
	return nil
}

func (c *reached) Exec(context.Context, *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return nil, errNoSession
}

func (c *reached) Attach(context.Context, *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return nil, errNoSession
}

func (c *reached) PortForward(_ context.Context, r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	c.ports = r.Port
	return nil, errNoSession
}

package auth

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of assembly.md 4 maps paths to subresources (A18, A19).
func TestSubresources(t *testing.T) {
	for path, want := range map[string][]string{
		"/stats": {"stats"}, "/stats/": {"stats"}, "/stats/summary": {"stats"},
		"/metrics": {"metrics"}, "/metrics/cadvisor": {"metrics"}, "/metrics/probes": {"metrics"}, "/metrics/slis": {"metrics"},
		"/logs": {"log"}, "/logs/": {"log"}, "/logs/pods/a b.log": {"log"}, "/logs/a..b/...": {"log"},
		"/checkpoint/ns/pod/c": {"checkpoint"},
		"/statusz":             {"statusz"}, "/statusz/pods": {"statusz"},
		"/configz": {"configz", "proxy"}, "/flagz": {"configz"},
		"/healthz": {"healthz", "proxy"}, "/healthz/syncloop": {"healthz", "proxy"},
		"/pods": {"pods", "proxy"}, "/pods/": {"pods", "proxy"}, "/runningpods/": {"pods", "proxy"}, "/runningpods": {"pods", "proxy"},
		"/exec/ns/pod/c": {"proxy"}, "/run/ns/pod/c": {"proxy"}, "/attach/ns/pod/c": {"proxy"}, "/portForward/ns/pod": {"proxy"},
		"/containerLogs/ns/pod/c": {"proxy"}, "/debug/pprof/": {"proxy"}, "/debug/flags/v": {"proxy"},
		"/": {"proxy"}, "/unknown": {"proxy"}, "/METRICS": {"proxy"}, "/metricsx": {"proxy"}, "/podsexec": {"proxy"}, "/stats.": {"proxy"},
		"/exec/metrics": {"proxy"}, "/%": {"proxy"}, "/ü": {"proxy"},
	} {
		asked, err := AttributesOf(http.MethodGet, &url.URL{Path: path})
		require.NoError(t, err, path)
		require.Equal(t, Attributes{Verb: "get", Subresources: want}, asked, path)
	}
}

func TestVerbs(t *testing.T) {
	for method, want := range map[string]string{
		"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete",
		"HEAD": "", "OPTIONS": "", "CONNECT": "", "TRACE": "", "get": "", "": "",
	} {
		asked, err := AttributesOf(method, &url.URL{Path: "/exec/ns/pod/c"})
		require.NoError(t, err)
		require.Equal(t, want, asked.Verb, method)
	}
}

// A path that a router may interpret differently has no attributes.
func TestOddPaths(t *testing.T) {
	for _, raw := range []string{
		"/metrics/../exec/ns/pod/c", "/metrics/%2e%2e/exec/ns/pod/c", "/metrics/%2E%2E%2Fexec", "/metrics%2f..%2fexec", "/metrics%2Fexec",
		"/metrics/%252e%252e/exec", "/metrics/%252fexec", "//metrics", "//host/metrics", "/metrics//exec", "/./metrics", "/metrics/.", "/metrics/..",
		"/logs/..%5c..%5cetc", "/logs/%00", "/logs/a%0ab", "/logs/%7f", "/logs/%2570", "*", "",
	} {
		u, err := url.ParseRequestURI(raw)
		if err != nil {
			u = &url.URL{Path: raw}
		}
		_, err = AttributesOf(http.MethodGet, u)
		require.ErrorIs(t, err, ErrPath, raw)
	}
	_, err := AttributesOf(http.MethodGet, &url.URL{Opaque: "metrics", Path: "/metrics"})
	require.ErrorIs(t, err, ErrPath)
}

// The caller may change the result.
func TestAttributesAreCopies(t *testing.T) {
	first, err := AttributesOf(http.MethodGet, &url.URL{Path: "/pods"})
	require.NoError(t, err)
	first.Subresources[0] = "proxy"
	again, err := AttributesOf(http.MethodGet, &url.URL{Path: "/pods"})
	require.NoError(t, err)
	require.Equal(t, []string{"pods", "proxy"}, again.Subresources)
}

// routes returns a mux with all endpoints of a kubelet, each named by its subresource.
func routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, subresource := range map[string]string{
		"/healthz": "healthz", "/healthz/{check}": "healthz", "/pods": "pods", "/pods/{$}": "pods", "/runningpods/": "pods",
		"/stats/": "stats", "/stats/summary": "stats", "/metrics": "metrics", "/metrics/{which}": "metrics", "/configz": "configz", "/flagz": "configz",
		"/statusz": "statusz", "/statusz/pods": "statusz", "/statusz/pods/{pod}": "statusz",
		"/checkpoint/{ns}/{pod}/{container}": "checkpoint", "/logs": "log", "/logs/{file...}": "log",
		"/run/{ns}/{pod}/{container}": "proxy", "/exec/{ns}/{pod}/{container}": "proxy", "/exec/{ns}/{pod}/{uid}/{container}": "proxy",
		"/attach/{ns}/{pod}/{container}": "proxy", "/portForward/{ns}/{pod}": "proxy", "/containerLogs/{ns}/{pod}/{container}": "proxy",
		"/debug/pprof/{profile}": "proxy", "/debug/flags/v": "proxy",
	} {
		mux.Handle(pattern, endpoint(subresource))
	}
	return mux
}

type endpoint string

func (endpoint) ServeHTTP(http.ResponseWriter, *http.Request) {}

// Whatever the request line: the authorized attributes are those of the endpoint that serves the
// request, or the request is refused.
func FuzzAttributesAreThoseOfTheRoute(f *testing.F) {
	for _, seed := range []string{
		"GET /metrics", "GET /metrics/../exec/a/b/c", "POST /exec/a/b/c?command=x", "GET /exec%2fa%2fb%2fc", "GET /%6detrics", "GET /metrics%2f..%2fexec/a/b/c",
		"GET http://node/pods/", "CONNECT node:10250", "OPTIONS *", "GET //exec/a/b/c", "GET /logs/%2e%2e/%2e%2e/etc/shadow", "GET /metrics/%252e%252e/pods", "DELETE /pods;/exec",
		"GET /runningpods/..", "PRI *", "GET /statusz/pods/a%00", "GET /%", "GET /healthz?x=/exec", "GET /exec/a//c",
	} {
		f.Add(seed)
	}
	mux := routes()
	f.Fuzz(func(t *testing.T, line string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + " HTTP/1.1\r\nHost: node\r\n\r\n")))
		if err != nil {
			return
		}
		asked, err := AttributesOf(r.Method, r.URL)
		if err != nil {
			require.ErrorIs(t, err, ErrPath)
			return
		}
		require.NotEmpty(t, asked.Subresources)
		require.Equal(t, verbs[r.Method], asked.Verb)
		if serves, ok := first(mux.Handler(r)).(endpoint); ok {
			require.Equal(t, string(serves), asked.Subresources[0], "%q", r.URL)
		}
	})
}

func first(h http.Handler, _ string) http.Handler { return h }

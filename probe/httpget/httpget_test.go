package httpget

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/internal/networktest"
)

type server struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func serve(t *testing.T, host string, tls bool, handle http.HandlerFunc) *server {
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r)
		s.mu.Unlock()
		handle(w, r)
	}))
	require.NoError(t, s.Listener.Close())
	s.Listener = networktest.Listen(t, host)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func (s *server) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// target returns a probe of a path of a pod that listens on addr.
func target(addr net.Addr, path string) probe.Target {
	a := addr.(*net.TCPAddr)
	return probe.Target{
		PodIP: a.IP.String(), Timeout: time.Minute,
		Container: &v1.Container{Ports: []v1.ContainerPort{{Name: "web", ContainerPort: int32(a.Port)}}},
		Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{
			Path: path, Port: intstr.FromString("web"),
		}}},
	}
}

func (s *server) target(path string) probe.Target { return target(s.Listener.Addr(), path) }

func newProber(t testing.TB) *Prober {
	t.Helper()
	p, err := New(Config{})
	require.NoError(t, err)
	return p
}

func result(t *testing.T, target probe.Target) probe.Result {
	t.Helper()
	got, err := newProber(t).Probe(t.Context(), target)
	require.NoError(t, err)
	return got
}

func TestNew(t *testing.T) {
	for _, version := range []string{"", "1.36", "2.0+"} {
		_, err := New(Config{Version: version})
		require.NoError(t, err)
	}
	for _, version := range []string{"1", "1.36.3", "v1.36", "1.36\r\nX: y"} {
		_, err := New(Config{Version: version})
		require.ErrorContains(t, err, "Config.Version")
	}
}

const secret = "s3cret"

// Every status from 200 to 399 passes, and only a redirect's result contains the body (T47), also over IPv6 and
// TLS.
func TestStatus(t *testing.T) {
	handle := func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.URL.Path[1:])
		w.WriteHeader(code)
		_, _ = io.WriteString(w, secret) // fails for a status without a body
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		for scheme, tls := range map[v1.URIScheme]bool{"": false, v1.URISchemeHTTP: false, v1.URISchemeHTTPS: true} {
			t.Run(host+string(scheme), func(t *testing.T) {
				s := serve(t, host, tls, handle)
				for path, want := range map[string]probe.Verdict{
					"/200": probe.Success, "/201": probe.Success, "/204": probe.Success, "/304": probe.Warning, "/399": probe.Warning,
					"/400": probe.Failure, "/404": probe.Failure, "/500": probe.Failure, "/999": probe.Failure,
				} {
					target := s.target(path)
					target.Probe.HTTPGet.Scheme = scheme
					got := result(t, target)
					require.Equal(t, want, got.Verdict, path)
					if want == probe.Warning {
						require.Contains(t, got.Output, "Probe terminated redirects, Response body: ")
						continue
					}
					require.Contains(t, got.Output, path[1:])
					require.NotContains(t, got.Output, secret)
				}
			})
		}
	}
}

// T48: the headers and the host of a request.
func TestRequest(t *testing.T) {
	s := serve(t, "127.0.0.1", false, func(http.ResponseWriter, *http.Request) {})
	header := func(name, value string) v1.HTTPHeader { return v1.HTTPHeader{Name: name, Value: value} }
	for _, tc := range []struct {
		name    string
		version string
		own     []v1.HTTPHeader
		want    http.Header
		host    string
	}{
		{"ours", "1.35+", nil, http.Header{"User-Agent": {"kube-probe/1.35+"}, "Accept": {"*/*"}}, ""},
		{"default", "", nil, http.Header{"User-Agent": {"kube-probe/1.36"}, "Accept": {"*/*"}}, ""},
		{"theirs", "", []v1.HTTPHeader{
			header("user-agent", "me"), header("Accept", "text/plain"), header("X-A", "1"), header("x-a", "2"), header("Host", "example.org"),
		}, http.Header{"User-Agent": {"me"}, "Accept": {"text/plain"}, "X-A": {"1", "2"}}, "example.org"},
		{"none", "", []v1.HTTPHeader{header("User-Agent", ""), header("Accept", "")}, http.Header{}, ""},
		{"password", "", []v1.HTTPHeader{header("Authorization", "Basic eDp5")},
			http.Header{"User-Agent": {"kube-probe/1.36"}, "Accept": {"*/*"}, "Authorization": {"Basic eDp5"}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := New(Config{Version: tc.version})
			require.NoError(t, err)
			target := s.target("/x?a=b%20c&d")
			target.Probe.HTTPGet.HTTPHeaders = tc.own
			got, err := p.Probe(t.Context(), target)
			require.NoError(t, err)
			require.Equal(t, probe.Success, got.Verdict)
			seen := s.requests()[len(s.requests())-1]
			require.Equal(t, "/x?a=b%20c&d", seen.RequestURI)
			require.Equal(t, http.MethodGet, seen.Method)
			tc.want.Set("Connection", "close")
			require.Equal(t, tc.want, seen.Header, "no other headers, no compression")
			if tc.host == "" {
				tc.host = s.Listener.Addr().String()
			}
			require.Equal(t, tc.host, seen.Host)
		})
	}
}

// Every path is requested from the pod.
func TestPaths(t *testing.T) {
	s := serve(t, "127.0.0.1", false, func(http.ResponseWriter, *http.Request) {})
	for path, want := range map[string]string{
		"":                    "/",
		"healthz":             "/healthz",
		"?a=b":                "/?a=b",
		"/a%2Fb/c":            "/a%2Fb/c",
		"/a?":                 "/a?",
		"/a#b":                "/a",
		"//user:pw@evil/x":    "/x",
		"http://evil:1/x?a=b": "/x?a=b",
		"mailto:x":            "/mailto:x",
		"%zz":                 "/%25zz",
		"/a b\n":              "/a%20b%0A",
		"/ä":                  "/%C3%A4",
	} {
		require.Equal(t, probe.Success, result(t, s.target(path)).Verdict, path)
		seen := s.requests()[len(s.requests())-1]
		require.Equal(t, want, seen.RequestURI, path)
		require.Empty(t, seen.Header["Authorization"], path)
		require.Equal(t, s.Listener.Addr().String(), seen.Host)
	}
}

// T50: an impossible request is an error without a verdict.
func TestErrors(t *testing.T) {
	base := func(change func(*probe.Target, *v1.HTTPGetAction)) probe.Target {
		a := target(&net.TCPAddr{IP: net.ParseIP("10.0.0.9"), Port: 80}, "/")
		change(&a, a.Probe.HTTPGet)
		return a
	}
	port := func(port intstr.IntOrString) probe.Target {
		return base(func(_ *probe.Target, h *v1.HTTPGetAction) { h.Port = port })
	}
	for want, target := range map[string]probe.Target{
		`port "nope" is neither`:               port(intstr.FromString("nope")),
		`port "0" is neither`:                  port(intstr.FromInt(0)),
		`port "65536" is neither`:              port(intstr.FromString("65536")),
		"no address":                           base(func(t *probe.Target, _ *v1.HTTPGetAction) { t.PodIP = "" }),
		"no httpGet handler":                   base(func(t *probe.Target, _ *v1.HTTPGetAction) { t.Probe = &v1.Probe{} }),
		`unsupported protocol scheme "gopher"`: base(func(_ *probe.Target, h *v1.HTTPGetAction) { h.Scheme = "GOPHER" }),
		"invalid header field name":            base(func(_ *probe.Target, h *v1.HTTPGetAction) { h.HTTPHeaders = []v1.HTTPHeader{{Name: "a b"}} }),
		"invalid header field value": base(func(_ *probe.Target, h *v1.HTTPGetAction) {
			h.HTTPHeaders = []v1.HTTPHeader{{Name: "a", Value: "x\r\ny: z"}}
		}),
	} {
		p, err := New(Config{DialContext: func(context.Context, string, string) (net.Conn, error) {
			t.Error("connected")
			return nil, io.EOF
		}})
		require.NoError(t, err)
		got, err := p.Probe(t.Context(), target)
		require.ErrorContains(t, err, want)
		require.Zero(t, got)
	}
}

// A Prober ignores the proxy of the environment (see TestMain), and IPv6 hosts get brackets.
func TestConnectsDirectly(t *testing.T) {
	for host, want := range map[string]string{
		"app.example": "app.example:80", "fd00::9": "[fd00::9]:80", "[fd00::9]": "[fd00::9]:80", "fe80::9%eth0": "[fe80::9%eth0]:80",
	} {
		for _, scheme := range []v1.URIScheme{v1.URISchemeHTTP, v1.URISchemeHTTPS} {
			var dialed []string
			p, err := New(Config{DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
				dialed = append(dialed, address)
				return nil, &net.OpError{Op: "dial", Err: io.ErrClosedPipe}
			}})
			require.NoError(t, err)
			target := target(&net.TCPAddr{Port: 80}, "/")
			target.Probe.HTTPGet.Host, target.Probe.HTTPGet.Scheme = host, scheme
			got, err := p.Probe(t.Context(), target)
			require.NoError(t, err)
			require.Equal(t, probe.Failure, got.Verdict)
			require.Equal(t, []string{want}, dialed)
		}
	}
}

// T52: a thousand probes leave neither connections nor sockets in TIME_WAIT, if the server closes
// connections as requested, and no open files.
func TestLeavesNothingOpen(t *testing.T) {
	const n = 1000
	s := serve(t, "127.0.0.1", false, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	p := newProber(t)
	p.closeWait = time.Minute // for a loaded machine
	target := s.target("/")
	probeOnce := func() {
		got, err := p.Probe(t.Context(), target)
		require.NoError(t, err)
		require.Equal(t, probe.Success, got.Verdict)
	}
	probeOnce()
	before := networktest.Open(t)
	for range n {
		probeOnce()
	}
	sockets := networktest.Sockets(t, s.Listener.Addr())
	require.Zero(t, sockets[networktest.Established], sockets)
	require.Zero(t, sockets[networktest.CloseWait], sockets)
	require.Less(t, sockets[networktest.TimeWait], n/2, "the server closes the connection")
	networktest.Eventually(t, func() bool { return networktest.Open(t) <= before+1 }) // the server's side
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.seen, n+1)
	require.True(t, strings.HasPrefix(s.seen[0].UserAgent(), "kube-probe/"))
}

package hooks

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// server is an HTTP server that records its requests.
type server struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func serve(t *testing.T, tls bool, handle http.HandlerFunc) *server {
	s := &server{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r)
		s.mu.Unlock()
		handle(w, r)
	})
	s.Server = httptest.NewUnstartedServer(handler)
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

// action returns an httpGet handler for the server.
func (s *server) action(t *testing.T, path string) *v1.HTTPGetAction {
	t.Helper()
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	return &v1.HTTPGetAction{Host: u.Hostname(), Port: intstr.FromInt(port), Path: path}
}

func get(ctx context.Context, r *Runner, action *v1.HTTPGetAction) (string, error) {
	return r.Run(ctx, testPod, testContainer, "abc", &v1.LifecycleHandler{HTTPGet: action})
}

// A response of any status is a success, and only its beginning is read.
func TestAnyStatusIsSuccess(t *testing.T) {
	for _, status := range []int{200, 204, 301, 404, 500} {
		s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			if status == 500 {
				_, _ = io.WriteString(w, strings.Repeat("x", 3*maxOutput))
			}
		})
		output, err := get(t.Context(), newRunner(t, Config{}), s.action(t, "/bye?why=x%20y"))
		require.NoError(t, err)
		require.Equal(t, status == 500, len(output) == maxOutput)
		require.Len(t, s.requests(), 1)
		require.Equal(t, "/bye?why=x%20y", s.requests()[0].RequestURI)
		require.Equal(t, http.MethodGet, s.requests()[0].Method)
	}
}

func TestHeaders(t *testing.T) {
	s := serve(t, false, func(http.ResponseWriter, *http.Request) {})
	for _, tc := range []struct {
		name string
		own  []v1.HTTPHeader
		want map[string][]string
		host string
	}{
		{"ours", nil, map[string][]string{"User-Agent": {"kube-lifecycle/1.36"}, "Accept": {"*/*"}}, ""},
		{"theirs", []v1.HTTPHeader{
			{Name: "user-agent", Value: "me"}, {Name: "Accept", Value: "text/plain"},
			{Name: "X-A", Value: "1"}, {Name: "x-a", Value: "2"}, {Name: "Host", Value: "example.org"},
		}, map[string][]string{"User-Agent": {"me"}, "Accept": {"text/plain"}, "X-A": {"1", "2"}}, "example.org"},
		{"none", []v1.HTTPHeader{{Name: "User-Agent"}, {Name: "Accept"}}, map[string][]string{"User-Agent": nil, "Accept": nil}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			action := s.action(t, "x")
			action.HTTPHeaders = tc.own
			_, err := get(t.Context(), newRunner(t, Config{}), action)
			require.NoError(t, err)
			seen := s.requests()[len(s.requests())-1]
			require.Equal(t, "/x", seen.URL.Path)
			for name, want := range tc.want {
				require.Equal(t, want, seen.Header[name], name)
			}
			if tc.host != "" {
				require.Equal(t, tc.host, seen.Host)
			}
		})
	}
}

// Without a host the request goes to the first current address of the pod.
func TestHostDefaultsToPodIP(t *testing.T) {
	s := serve(t, false, func(http.ResponseWriter, *http.Request) {})
	var dialed []string
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed = append(dialed, address)
		return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
	}
	for _, tc := range []struct {
		name string
		ips  []string
		err  error
		port intstr.IntOrString
		dial string
		want string
	}{
		{"IPv4", []string{"10.0.0.9", "fd00::9"}, nil, intstr.FromInt(80), "10.0.0.9:80", ""},
		{"IPv6", []string{"fd00::9"}, nil, intstr.FromInt(80), "[fd00::9]:80", ""},
		{"named port", []string{"10.0.0.9"}, nil, intstr.FromString("admin"), "10.0.0.9:8081", ""},
		{"number as text", []string{"10.0.0.9"}, nil, intstr.FromString("9090"), "10.0.0.9:9090", ""},
		{"unknown name", []string{"10.0.0.9"}, nil, intstr.FromString("nope"), "", `port "nope" is neither`},
		{"negative port", []string{"10.0.0.9"}, nil, intstr.FromInt(-1), "", `port "-1" is neither`},
		{"too high a port", []string{"10.0.0.9"}, nil, intstr.FromInt(65536), "", `port "65536" is neither`},
		{"no address", nil, nil, intstr.FromInt(80), "", "the pod has no address"},
		{"runtime is away", nil, errors.New("away"), intstr.FromInt(80), "", "the pod's address: away"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dialed = nil
			r := newRunner(t, Config{dialContext: dial, PodIPs: func(_ context.Context, pod *v1.Pod) ([]string, error) {
				require.Same(t, testPod, pod)
				return tc.ips, tc.err
			}})
			_, err := get(t.Context(), r, &v1.HTTPGetAction{Port: tc.port})
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				require.Empty(t, dialed)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{tc.dial}, dialed)
		})
	}
	_, err := get(t.Context(), newRunner(t, Config{}), &v1.HTTPGetAction{Port: intstr.FromInt(80)})
	require.ErrorContains(t, err, "Config.PodIPs")
}

// A path is never interpreted as a URL.
func TestOddPaths(t *testing.T) {
	s := serve(t, false, func(http.ResponseWriter, *http.Request) {})
	for path, want := range map[string]string{
		"":                    "/",
		"//user:pw@evil/x":    "/x",
		"http://evil:1/x?a=b": "/x?a=b",
		"mailto:x":            "/mailto:x",
		"%zz":                 "/%25zz",
	} {
		_, err := get(t.Context(), newRunner(t, Config{}), s.action(t, path))
		require.NoError(t, err, path)
		seen := s.requests()[len(s.requests())-1]
		require.Equal(t, want, seen.RequestURI, path)
		require.Empty(t, seen.Header["Authorization"], path)
	}
}

// Redirects are followed within the host only, and up to a limit.
func TestRedirects(t *testing.T) {
	other := serve(t, false, func(http.ResponseWriter, *http.Request) {})
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/here":
			http.Redirect(w, r, "/there", http.StatusFound)
		case "/port":
			http.Redirect(w, r, other.URL+"/same-host", http.StatusFound)
		case "/away":
			http.Redirect(w, r, elsewhere+"/stolen", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		}
	})
	r := newRunner(t, Config{})
	_, err := get(t.Context(), r, s.action(t, "/here"))
	require.NoError(t, err)
	require.Equal(t, "/there", s.requests()[1].URL.Path)
	_, err = get(t.Context(), r, s.action(t, "/port"))
	require.NoError(t, err)
	require.Len(t, other.requests(), 1)
	_, err = get(t.Context(), r, s.action(t, "/away"))
	require.NoError(t, err, "the redirect itself is a response")
	require.Len(t, other.requests(), 1)
	_, err = get(t.Context(), r, s.action(t, "/loop"))
	require.ErrorContains(t, err, "stopped after 10 redirects")
}

// Certificates are not verified. If an https handler gets an HTTP response, a second request
// without Authorization follows over HTTP, and the pod gets an event.
func TestTLS(t *testing.T) {
	for _, tls := range []bool{true, false} {
		s := serve(t, tls, func(http.ResponseWriter, *http.Request) {})
		var events []string
		fallbacks := 0
		r := newRunner(t, Config{
			Event: func(ref v1.ObjectReference, eventtype, reason, message string) {
				require.Equal(t, testPod.UID, ref.UID)
				events = append(events, eventtype+" "+reason)
			},
			Metrics: Metrics{OnHTTPFallback: func() { fallbacks++ }},
		})
		action := s.action(t, "/bye")
		action.Scheme = v1.URISchemeHTTPS
		action.HTTPHeaders = []v1.HTTPHeader{{Name: "Authorization", Value: "Bearer x"}, {Name: "X-A", Value: "1"}}
		_, err := get(t.Context(), r, action)
		require.NoError(t, err)
		require.Len(t, s.requests(), 1)
		seen := s.requests()[0]
		require.Equal(t, "1", seen.Header.Get("X-A"))
		if tls {
			require.Equal(t, "Bearer x", seen.Header.Get("Authorization"))
			require.Empty(t, events)
			require.Zero(t, fallbacks)
			continue
		}
		require.Empty(t, seen.Header.Get("Authorization"))
		require.Equal(t, []string{"Warning LifecycleHTTPFallback"}, events)
		require.Equal(t, 1, fallbacks)
	}
}

// A failed fallback is a failure, without an event and without a metric.
func TestFallbackFails(t *testing.T) {
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	r := newRunner(t, Config{
		Event:   func(_ v1.ObjectReference, _, reason, _ string) { t.Error(reason) },
		Metrics: Metrics{OnHTTPFallback: func() { t.Error("counted") }},
	})
	action := s.action(t, "/bye")
	action.Scheme = v1.URISchemeHTTPS
	_, err := get(t.Context(), r, action)
	require.ErrorIs(t, err, http.ErrSchemeMismatch)
	require.ErrorContains(t, err, "EOF")
}

// A missing or endless response ends with the context.
func TestHTTPEndsWithContext(t *testing.T) {
	over := errors.New("grace period is over")
	for _, path := range []string{"/silent", "/endless"} {
		s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/endless" {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		})
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, over)
		_, err := get(ctx, newRunner(t, Config{}), s.action(t, path))
		cancel()
		require.ErrorIs(t, err, over, path)
	}
	_, err := get(t.Context(), newRunner(t, Config{}), &v1.HTTPGetAction{
		Host: "127.0.0.1", Port: intstr.FromInt(1), HTTPHeaders: []v1.HTTPHeader{{Name: "bad name"}},
	})
	require.Error(t, err)
}

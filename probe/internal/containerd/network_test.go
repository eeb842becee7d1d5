package containerd

import (
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/grpc"
	"github.com/podwright/podwright/probe/httpget"
	"github.com/podwright/podwright/probe/internal/networktest"
	"github.com/podwright/podwright/probe/tcpsocket"
)

func httpAction(port int, path string) v1.ProbeHandler {
	return v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt(port), Path: path}}
}

func tcpAction(port int) v1.ProbeHandler {
	return v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt(port)}}
}

func grpcAction(port int, service string) v1.ProbeHandler {
	return v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(port), Service: &service}}
}

func newHTTP(t *testing.T) probe.Prober {
	p, err := httpget.New(httpget.Config{})
	require.NoError(t, err)
	return p
}

func newGRPC(t *testing.T) probe.Prober {
	p, err := grpc.New(grpc.Config{})
	require.NoError(t, err)
	return p
}

// Servers in a pod with a network of its own, asked from the node: T47, T49, T51
// and the bad servers of the issue.
func TestServers(t *testing.T) {
	onContainerd(t, func(t *testing.T, n node) {
		p := n.pod(runtimeapi.NamespaceMode_POD)
		p.start("plain", n.testprog, "/testprog", "http", ":8080")
		p.start("secure", n.testprog, "/testprog", "https", ":8443")
		p.start("silent", n.testprog, "/testprog", "silent", ":9090")
		secure := func(path string) probe.Target {
			target := p.target(httpAction(8443, path))
			target.Probe.HTTPGet.Scheme = v1.URISchemeHTTPS
			return target
		}
		p.passes(newHTTP(t), p.target(httpAction(8080, "/healthz")))
		p.passes(newHTTP(t), secure("/healthz"))
		p.passes(tcpsocket.New(tcpsocket.Config{}), p.target(tcpAction(9090)))

		t.Run("httpGet", func(t *testing.T) { p.httpServers(t, secure) })
		t.Run("tcpSocket", func(t *testing.T) {
			got := p.ask(tcpsocket.New(tcpsocket.Config{}), p.target(tcpAction(1)))
			require.Equal(t, probe.Failure, got.Verdict)
			require.Contains(t, got.Output, "connection refused")
		})
		t.Run("grpc", func(t *testing.T) {
			for service, want := range map[string]probe.Verdict{"": probe.Success, "up": probe.Success, "down": probe.Failure, "who": probe.Failure} {
				require.Equal(t, want, p.ask(newGRPC(t), p.target(grpcAction(8080, service))).Verdict, service)
			}
			require.Equal(t, probe.Failure, p.ask(newGRPC(t), p.target(grpcAction(1, ""))).Verdict)
			require.Equal(t, probe.Failure, p.ask(newGRPC(t), p.target(grpcAction(8443, ""))).Verdict)
			p.timesOut(t, newGRPC(t), p.target(grpcAction(8080, "hang")))
			p.timesOut(t, newGRPC(t), p.target(grpcAction(9090, "")))
		})
	})
}

func (p pod) httpServers(t *testing.T, secure func(string) probe.Target) {
	to := func(where string) string { return "/redirect?to=" + url.QueryEscape(where) }
	for path, want := range map[string]probe.Result{
		"/status?code=200":                {Verdict: probe.Success, Output: "HTTP status 200"},
		"/status?code=204":                {Verdict: probe.Success, Output: "HTTP status 204"},
		"/status?code=404":                {Verdict: probe.Failure, Output: "HTTP status 404"},
		"/status?code=500":                {Verdict: probe.Failure, Output: "HTTP status 500"},
		"/endless":                        {Verdict: probe.Success, Output: "HTTP status 200"},
		"/chain?n=10":                     {Verdict: probe.Success, Output: "HTTP status 200"},
		"/chain?n=11":                     {Verdict: probe.Failure, Output: "stopped after 10 redirects"},
		to("/healthz"):                    {Verdict: probe.Success, Output: "HTTP status 200"},
		to("https://" + p.at(8443) + "/"): {Verdict: probe.Failure, Output: "HTTP status 404"},
		to("http://elsewhere.example/"):   {Verdict: probe.Warning, Output: "HTTP status 302: the redirect to another host, elsewhere.example, was not followed"},
	} {
		require.Equal(t, want, p.ask(newHTTP(t), p.target(httpAction(8080, path))), path)
		require.Equal(t, want, p.ask(newHTTP(t), secure(path)), path)
	}
	p.timesOut(t, newHTTP(t), p.target(httpAction(8080, "/silent")))
	p.timesOut(t, newHTTP(t), p.target(httpAction(9090, "/")))
	p.timesOut(t, newHTTP(t), secure("/silent"))
	require.Equal(t, probe.Failure, p.ask(newHTTP(t), p.target(httpAction(1, "/"))).Verdict)
}

// at is an address of the pod.
func (p pod) at(port int) string {
	return net.JoinHostPort(p.ip, strconv.Itoa(port))
}

// timesOut requires a failure once the time is over.
func (p pod) timesOut(t *testing.T, prober probe.Prober, target probe.Target) {
	t.Helper()
	target.Timeout = 300 * time.Millisecond
	begin := time.Now()
	got := p.ask(prober, target)
	require.Equal(t, probe.Failure, got.Verdict)
	require.Contains(t, got.Output, "no answer")
	require.GreaterOrEqual(t, time.Since(begin), target.Timeout*9/10)
}

// On the host's network, by IPv6.
func TestIPv6(t *testing.T) {
	onContainerd(t, func(t *testing.T, n node) {
		l := networktest.Listen(t, "::1")
		address, port := l.Addr().String(), l.Addr().(*net.TCPAddr).Port
		require.NoError(t, l.Close())
		p := n.pod(runtimeapi.NamespaceMode_NODE)
		p.ip = "::1"
		p.start("plain", n.testprog, "/testprog", "http", address)
		p.passes(newHTTP(t), p.target(httpAction(port, "/healthz")))
		p.passes(tcpsocket.New(tcpsocket.Config{}), p.target(tcpAction(port)))
		p.passes(newGRPC(t), p.target(grpcAction(port, "")))
	})
}

package containerd

import (
	"net"
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

// The node reaches servers in a pod with its own network. The probers' packages test the verdicts
// (T47, T49, T51).
func TestServers(t *testing.T) {
	onContainerd(t, func(t *testing.T, n node) {
		p := n.pod(runtimeapi.NamespaceMode_POD)
		p.start("plain", n.testprog, "/testprog", "http", ":8080")
		p.start("secure", n.testprog, "/testprog", "https", ":8443")
		p.start("silent", n.testprog, "/testprog", "silent", ":9090")
		secure := p.target(httpAction(8443, "/healthz"))
		secure.Probe.HTTPGet.Scheme = v1.URISchemeHTTPS
		p.passes(newHTTP(t), p.target(httpAction(8080, "/healthz")))
		p.passes(newHTTP(t), secure)
		p.passes(tcpsocket.New(tcpsocket.Config{}), p.target(tcpAction(9090)))
		p.passes(newGRPC(t), p.target(grpcAction(8080, "up")))

		require.Equal(t, probe.Result{Verdict: probe.Failure, Output: "HTTP probe failed with statuscode: 404"}, p.ask(newHTTP(t), p.target(httpAction(8080, "/status?code=404"))))
		require.Equal(t, probe.Failure, p.ask(newGRPC(t), p.target(grpcAction(8080, "down"))).Verdict)
		for prober, refused := range map[probe.Prober]v1.ProbeHandler{
			newHTTP(t): httpAction(1, "/"), tcpsocket.New(tcpsocket.Config{}): tcpAction(1), newGRPC(t): grpcAction(1, ""),
		} {
			got := p.ask(prober, p.target(refused))
			require.Equal(t, probe.Failure, got.Verdict)
			require.Contains(t, got.Output, "connection refused")
		}
		for prober, silent := range map[probe.Prober]v1.ProbeHandler{newHTTP(t): httpAction(9090, "/"), newGRPC(t): grpcAction(9090, "")} {
			target := p.target(silent)
			target.Timeout = 300 * time.Millisecond
			got := p.ask(prober, target)
			require.Equal(t, probe.Failure, got.Verdict)
			require.Regexp(t, "context deadline exceeded|did not complete within 300ms", got.Output)
		}
	})
}

// The probers reach servers on the host's network by IPv6.
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

package tcpsocket

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/internal/networktest"
)

func to(podIP, host string, port intstr.IntOrString) probe.Target {
	return probe.Target{
		Container: &v1.Container{Ports: []v1.ContainerPort{{Name: "db", ContainerPort: 5432}}},
		Probe:     &v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Host: host, Port: port}}},
		PodIP:     podIP,
		Timeout:   time.Minute,
	}
}

func at(addr net.Addr) probe.Target {
	a := addr.(*net.TCPAddr)
	return to(a.IP.String(), "", intstr.FromInt(a.Port))
}

func TestConnect(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			silent := networktest.Silent(t, host)
			p := New(Config{})
			got, err := p.Probe(t.Context(), at(silent.Addr()))
			require.NoError(t, err)
			require.Equal(t, probe.Result{Verdict: probe.Success, Output: "connected to " + silent.Addr().String()}, got)

			got, err = p.Probe(t.Context(), at(networktest.Refusing(t, host)))
			require.NoError(t, err)
			require.Equal(t, probe.Failure, got.Verdict)
			require.Contains(t, got.Output, "connection refused")
		})
	}
}

// The address of a handler, and the errors for an unknown address (T50).
func TestResolve(t *testing.T) {
	for _, tc := range []struct {
		target probe.Target
		want   string
		fails  string
	}{
		{target: to("10.0.0.9", "", intstr.FromInt(80)), want: "10.0.0.9:80"},
		{target: to("fd00::9", "", intstr.FromString("db")), want: "[fd00::9]:5432"},
		{target: to("fd00::9", "[::1]", intstr.FromString("81")), want: "[::1]:81"},
		{target: to("", "example.org", intstr.FromInt(65535)), want: "example.org:65535"},
		{target: to("10.0.0.9", "", intstr.FromString("web")), fails: `port "web" is neither`},
		{target: to("10.0.0.9", "", intstr.FromInt(0)), fails: `port "0" is neither`},
		{target: to("10.0.0.9", "", intstr.FromInt(-7)), fails: `port "-7" is neither`},
		{target: to("10.0.0.9", "", intstr.FromInt(65536)), fails: `port "65536" is neither`},
		{target: to("", "", intstr.FromInt(80)), fails: "no address"},
		{target: probe.Target{Probe: &v1.Probe{}}, fails: "no tcpSocket handler"},
		{target: probe.Target{}, fails: "no tcpSocket handler"},
	} {
		var dialed []string
		p := New(Config{DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			dialed = append(dialed, network+" "+address)
			near, far := net.Pipe()
			return near, far.Close()
		}})
		got, err := p.Probe(t.Context(), tc.target)
		if tc.fails != "" {
			require.ErrorContains(t, err, tc.fails)
			require.Empty(t, dialed)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, probe.Success, got.Verdict)
		require.Equal(t, []string{"tcp " + tc.want}, dialed)
	}
}

// A pod that does not respond fails at the timeout of the probe or of the caller. A cancelled
// probe is an error.
func TestTimeout(t *testing.T) {
	hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	p := New(Config{DialContext: hang})
	target := to("10.0.0.9", "", intstr.FromInt(80))
	target.Timeout = 10 * time.Millisecond
	got, err := p.Probe(t.Context(), target)
	require.NoError(t, err)
	require.Equal(t, probe.Result{Verdict: probe.Failure, Output: "dial tcp 10.0.0.9:80: i/o timeout"}, got)

	target.Timeout = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	got, err = p.Probe(ctx, target)
	require.NoError(t, err)
	require.Equal(t, probe.Failure, got.Verdict)

	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err = p.Probe(ctx, target)
	require.ErrorIs(t, err, context.Canceled)
}

// T52: a thousand probes leave neither connections nor files open, only sockets in TIME_WAIT for
// a minute.
func TestLeavesNothingOpen(t *testing.T) {
	const n = 1000
	silent := networktest.Silent(t, "127.0.0.1")
	earlier := networktest.Sockets(t, silent.Addr()) // of another server that had this port
	p := New(Config{})
	probeOnce := func() {
		got, err := p.Probe(t.Context(), at(silent.Addr()))
		require.NoError(t, err)
		require.Equal(t, probe.Success, got.Verdict)
	}
	probeOnce()
	before := networktest.Open(t)
	for range n {
		probeOnce()
	}
	networktest.Eventually(t, func() bool { return networktest.Open(t) <= before }) // the server's side
	sockets := networktest.Sockets(t, silent.Addr())
	require.Zero(t, sockets[networktest.Established], sockets)
	require.Zero(t, sockets[networktest.CloseWait], sockets)
	require.LessOrEqual(t, sockets[networktest.TimeWait], n+1+earlier[networktest.TimeWait], "one connection per probe, and no other")
}

// The address is the only data of the handler in a result.
func FuzzResolve(f *testing.F) {
	f.Add("10.0.0.9", "", "db")
	f.Add("fd00::9", "[::1]", "80")
	f.Add("", "%", "-1")
	f.Fuzz(func(t *testing.T, podIP, host, port string) {
		address, err := resolve(to(podIP, host, intstr.FromString(port)))
		if err != nil {
			require.Empty(t, address)
			return
		}
		at := strings.LastIndexByte(address, ':')
		require.Positive(t, at)
		if _, p, err := net.SplitHostPort(address); err == nil {
			require.Equal(t, address[at+1:], p)
		}
	})
}

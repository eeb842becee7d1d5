package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/internal/networktest"
)

// checker is a health server whose response depends on the service's name.
type checker struct {
	grpc_health_v1.UnimplementedHealthServer
	seen chan metadata.MD
}

func (c checker) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	select {
	case c.seen <- md:
	default:
	}
	state := grpc_health_v1.HealthCheckResponse_SERVING
	switch r.GetService() {
	case "down":
		state = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	case "unknown":
		state = grpc_health_v1.HealthCheckResponse_UNKNOWN
	case "unknown service":
		state = grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
	case "future":
		state = 99
	case "missing":
		return nil, status.Error(codes.NotFound, "what?")
	case "broken":
		return nil, status.Error(codes.Internal, strings.Repeat("ä", 10_000))
	case "late":
		return nil, status.Error(codes.DeadlineExceeded, "my own deadline")
	case "hangs":
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return &grpc_health_v1.HealthCheckResponse{Status: state}, nil
}

// serve runs a server, with health if it is not nil.
func serve(t *testing.T, host string, health grpc_health_v1.HealthServer) net.Addr {
	l := networktest.Listen(t, host)
	s := grpc.NewServer()
	if health != nil {
		grpc_health_v1.RegisterHealthServer(s, health)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		require.NoError(t, <-done)
	})
	return l.Addr()
}

func target(addr net.Addr, service string) probe.Target {
	a := addr.(*net.TCPAddr)
	return probe.Target{
		PodIP: a.IP.String(), Timeout: time.Minute, Container: &v1.Container{},
		Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(a.Port), Service: &service}}},
	}
}

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
	_, err := New(Config{Version: "1.36.3"})
	require.ErrorContains(t, err, "Config.Version")
}

// T51: only SERVING passes.
func TestStatus(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			addr := serve(t, host, checker{})
			for service, want := range map[string]probe.Result{
				"":                {Verdict: probe.Success, Output: "service healthy"},
				"up":              {Verdict: probe.Success, Output: "service healthy"},
				"down":            {Verdict: probe.Failure, Output: `service unhealthy (responded with "NOT_SERVING")`},
				"unknown":         {Verdict: probe.Failure, Output: `service unhealthy (responded with "UNKNOWN")`},
				"unknown service": {Verdict: probe.Failure, Output: `service unhealthy (responded with "SERVICE_UNKNOWN")`},
				"future":          {Verdict: probe.Failure, Output: `service unhealthy (responded with "99")`},
				"missing":         {Verdict: probe.Failure, Output: "error: health rpc probe failed: rpc error: code = NotFound desc = what?"},
				"late":            {Verdict: probe.Failure, Output: "timeout: health rpc did not complete within 1m0s"},
				"broken":          {Verdict: probe.Failure, Output: "error: health rpc probe failed: rpc error: code = Internal desc = " + strings.Repeat("ä", maxMessage/2)},
			} {
				require.Equal(t, want, result(t, target(addr, service)), service)
			}
			none := target(addr, "")
			none.Probe.GRPC.Service = nil
			require.Equal(t, probe.Success, result(t, none).Verdict)
		})
	}
}

// The request has the User-Agent and the deadline.
func TestRequest(t *testing.T) {
	c := checker{seen: make(chan metadata.MD, 1)}
	addr := serve(t, "127.0.0.1", c)
	p, err := New(Config{Version: "1.35"})
	require.NoError(t, err)
	_, err = p.Probe(t.Context(), target(addr, ""))
	require.NoError(t, err)
	md := <-c.seen
	require.True(t, strings.HasPrefix(md.Get("user-agent")[0], "kube-probe/1.35 "), md)
	require.Equal(t, []string{addr.String()}, md.Get(":authority"))
}

// T51: a server without gRPC, or no server, fails.
func TestBadServers(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	closing := networktest.Serve(t, "127.0.0.1", func(net.Conn) {})
	for name, tc := range map[string]struct {
		addr net.Addr
		want string
	}{
		"no health service":  {serve(t, "127.0.0.1", nil), "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "},
		"no method":          {serve(t, "127.0.0.1", grpc_health_v1.UnimplementedHealthServer{}), "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "},
		"a web server":       {web.Listener.Addr(), "error: health rpc probe failed: rpc error: code = Unavailable desc = "},
		"nobody":             {networktest.Refusing(t, "127.0.0.1"), "connection refused"},
		"accepts and closes": {closing.Addr(), "error: health rpc probe failed: rpc error: code = Unavailable desc = "},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			got := result(t, target(tc.addr, ""))
			require.Equal(t, probe.Failure, got.Verdict)
			require.Contains(t, got.Output, tc.want)
			require.Less(t, time.Since(begin), time.Minute, "no probe waits for the timeout")
		})
	}
}

// T51: a server that hangs, before or after it accepts, fails within the timeout, and its
// connection is closed by then.
func TestTimeout(t *testing.T) {
	silent := networktest.Silent(t, "127.0.0.1")
	addr := serve(t, "127.0.0.1", checker{})
	for name, to := range map[string]probe.Target{"after accept": target(silent.Addr(), ""), "in the call": target(addr, "hangs")} {
		to.Timeout = 300 * time.Millisecond
		got := result(t, to)
		for strings.Contains(got.Output, "failed to connect") && to.Timeout < time.Minute { // the machine is loaded
			to.Timeout *= 2
			got = result(t, to)
		}
		require.Equal(t, probe.Result{Verdict: probe.Failure, Output: fmt.Sprintf("timeout: health rpc did not complete within %v", to.Timeout)}, got, name)
	}
	hole, err := New(Config{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	require.NoError(t, err)
	to := target(addr, "")
	to.Timeout = 30 * time.Millisecond
	got, err := hole.Probe(t.Context(), to)
	require.NoError(t, err)
	require.Equal(t, probe.Result{Verdict: probe.Failure, Output: fmt.Sprintf("timeout: failed to connect service %q within 30ms: context deadline exceeded", addr)}, got)
	for _, addr := range []net.Addr{silent.Addr(), addr} {
		require.Zero(t, networktest.Sockets(t, addr)[networktest.Established])
	}
}

// Problems without a verdict about the container are errors.
func TestErrors(t *testing.T) {
	addr := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 80}
	for want, change := range map[string]func(*probe.Target){
		"port 0 is not":     func(t *probe.Target) { t.Probe.GRPC.Port = 0 },
		"port 65536 is not": func(t *probe.Target) { t.Probe.GRPC.Port = 65536 },
		"no address":        func(t *probe.Target) { t.PodIP = "" },
		"no grpc handler":   func(t *probe.Target) { t.Probe = nil },
	} {
		to := target(addr, "")
		change(&to)
		got, err := newProber(t).Probe(t.Context(), to)
		require.ErrorContains(t, err, want)
		require.Zero(t, got)
	}

	silent := networktest.Silent(t, "127.0.0.1")
	why := errors.New("the pod was removed")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	_, err := newProber(t).Probe(ctx, target(silent.Addr(), ""))
	require.ErrorIs(t, err, why)
}

// A Prober connects to the pod directly, and once, regardless of the environment (see TestMain).
func TestConnectsDirectly(t *testing.T) {
	for ip, want := range map[string]string{"10.0.0.9": "10.0.0.9:80", "fd00::9": "[fd00::9]:80", "fe80::9%eth0": "[fe80::9%eth0]:80"} {
		var dialed []string
		p, err := New(Config{DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			dialed = append(dialed, address)
			return nil, io.ErrClosedPipe
		}})
		require.NoError(t, err)
		to := target(&net.TCPAddr{Port: 80}, "")
		to.PodIP = ip
		got, err := p.Probe(t.Context(), to)
		require.NoError(t, err)
		require.Equal(t, probe.Result{Verdict: probe.Failure, Output: fmt.Sprintf("error: failed to connect service at %q: %v", want, io.ErrClosedPipe)}, got)
		require.Equal(t, []string{want}, dialed)
	}
}

// T52: many probes leave neither connections nor files open, only sockets in TIME_WAIT for a
// minute.
func TestLeavesNothingOpen(t *testing.T) {
	const n = 500
	addr := serve(t, "127.0.0.1", checker{})
	earlier := networktest.Sockets(t, addr) // of another server that had this port
	p := newProber(t)
	probeOnce := func() {
		got, err := p.Probe(t.Context(), target(addr, ""))
		require.NoError(t, err)
		require.Equal(t, probe.Success, got.Verdict)
	}
	probeOnce()
	before := networktest.Open(t)
	for range n {
		probeOnce()
	}
	sockets := networktest.Sockets(t, addr)
	require.Zero(t, sockets[networktest.Established], sockets)
	require.Zero(t, sockets[networktest.CloseWait], sockets)
	require.LessOrEqual(t, sockets[networktest.TimeWait], n+1+earlier[networktest.TimeWait], "one connection per probe, and no other")
	networktest.Eventually(t, func() bool { return networktest.Open(t) <= before+1 }) // the server's side
}

// For every response of a server, the verdict is Failure with a short message.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		p, err := New(Config{DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				_ = far.SetDeadline(time.Now().Add(5 * time.Second))
				_, _ = far.Read(make([]byte, 4096))
				_, _ = far.Write(answer)
			}()
			return near, nil
		}})
		require.NoError(t, err)
		to := target(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 80}, "")
		to.Timeout = 5 * time.Second
		got, err := p.Probe(t.Context(), to)
		require.NoError(t, err)
		require.Equal(t, probe.Failure, got.Verdict)
		require.Less(t, len(got.Output), maxMessage+100)
	})
}

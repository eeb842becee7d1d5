package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/config"
)

type nothing struct{ io.ReadCloser }

// A kernel log that cannot be opened ends a kubelet with root's rights. Other kubelets continue
// without it, and with the embedded runtime the log is not opened.
func TestKernelLog(t *testing.T) {
	const other = "unix:///run/x.sock"
	for name, c := range map[string]struct {
		endpoint   string
		privileged bool
		fails      error
		asked      bool
		err        error
	}{
		"readable":               {endpoint: other, privileged: true, asked: true},
		"readable by anybody":    {endpoint: other, asked: true},
		"forbidden to root":      {endpoint: other, privileged: true, fails: fs.ErrPermission, asked: true, err: fs.ErrPermission},
		"forbidden to others":    {endpoint: other, fails: fs.ErrPermission, asked: true},
		"not there, not root":    {endpoint: other, fails: fs.ErrNotExist, asked: true},
		"embedded":               {endpoint: config.Embedded, privileged: true},
		"embedded, without root": {endpoint: config.Embedded, fails: fs.ErrPermission},
	} {
		cfg := config.Default()
		cfg.Kubelet.ContainerRuntimeEndpoint = c.endpoint
		var log bytes.Buffer
		h := host{privileged: c.privileged, openLog: func() (file io.ReadCloser, err error) {
			if c.fails == nil {
				file = nothing{}
			}
			return file, c.fails
		}}
		open := h.kernelLog(&cfg, slog.New(slog.NewTextHandler(&log, nil)))
		require.Equal(t, c.asked, open != nil, name)
		if open == nil {
			continue
		}
		file, err := open()
		require.ErrorIs(t, err, c.err, name)
		require.Equal(t, c.fails == nil, file != nil, name)
		require.Equal(t, c.fails != nil && c.err == nil, log.Len() > 0, log.String())
	}
	require.True(t, os.Geteuid() == 0 || !thisHost().privileged)
}

// Containers of the embedded runtime are not confined, even if the kernel supports AppArmor.
func TestAppArmor(t *testing.T) {
	h := host{sys: fstest.MapFS{"kernel/security/apparmor/profiles": {}, "module/apparmor/parameters/enabled": {Data: []byte("Y\n")}}}
	cfg := config.Default()
	require.True(t, h.appArmor(&cfg))
	cfg.Kubelet.ContainerRuntimeEndpoint = config.Embedded
	require.False(t, h.appArmor(&cfg))
}

// With the embedded runtime, or if the chains are disabled, the firewall stays unchanged.
func TestFirewallStaysUnchanged(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // programs that are run by mistake are not found
	var log lines
	logger := slog.New(slog.NewTextHandler(&log, nil))
	embedded, unwanted, wanted := config.Default(), config.Default(), config.Default()
	embedded.Kubelet.ContainerRuntimeEndpoint = config.Embedded
	unwanted.Kubelet.MakeIPTablesUtilChains = new(false)
	require.NoError(t, keepChains(t.Context(), &embedded, logger))
	require.NoError(t, keepChains(t.Context(), &unwanted, logger))
	require.Empty(t, log.String())
	// A machine without iptables causes one line in the log.
	apitest.Run(t, func(ctx context.Context) error { return keepChains(ctx, &wanted, logger) })
	soon(t, func() bool { return strings.Count(log.String(), "iptables not available") == 1 })
}

// collector is an OTLP server that counts connections, and spans by name.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer
	net.Listener
	mu          sync.Mutex
	spans       map[string]int
	connections int
}

func (c *collector) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connections++
	return conn, err
}

func (c *collector) Export(_ context.Context, r *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans[span.Name]++
			}
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// A34: with tracing, the collector receives the kubelet's spans, the last ones at its end. Without
// tracing there is no connection. Pods run without a reachable collector.
func TestTracing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &collector{Listener: listener, spans: map[string]int{}}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(c) }()
	defer func() {
		server.Stop()
		require.NoError(t, <-served)
	}()
	nobody := "127.0.0.1:" + free(t)
	for name, text := range map[string]string{
		"off":                     "",
		"on":                      "tracing: {endpoint: '" + listener.Addr().String() + "', samplingRatePerMillion: 1000000}",
		"on, without a collector": "tracing: {endpoint: '" + nobody + "', samplingRatePerMillion: 1000000}",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			done := filepath.Join(dir, "done")
			pod := "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {hostNetwork: true, containers: [{name: c, image: i, command: [sh, -c, 'touch " + done + "; sleep 600']}]}}"
			require.NoError(t, os.Mkdir(filepath.Join(dir, "manifests"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "manifests", "p.yaml"), []byte(pod), 0o600))
			_, ended, stop := started(t, t.Output(), "--config="+configFile(t, text), "--pod-manifest-path="+filepath.Join(dir, "manifests"))
			soon(t, func() bool { return exists(done) })
			stop()
			require.NoError(t, <-ended)
			c.mu.Lock()
			defer c.mu.Unlock()
			if name != "on" {
				require.Zero(t, c.connections)
				return
			}
			require.Positive(t, c.spans["syncPod"], c.spans)
			c.connections = 0
		})
	}
}

package fake_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

func start(t testing.TB, cfg fake.Config) *fake.Runtime {
	t.Helper()
	rt, err := fake.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt
}

func podConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:    &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
		Hostname:    name,
		Labels:      map[string]string{"io.kubernetes.pod.uid": "uid-" + name, "app": name},
		Annotations: map[string]string{"note": "a"},
	}
}

func containerConfig(pod, name string, command ...string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: "busybox"},
		Command:  command,
		Labels:   map[string]string{"io.kubernetes.pod.uid": "uid-" + pod, "io.kubernetes.container.name": name},
	}
}

func sandbox(t testing.TB, rt *fake.Runtime, name string) string {
	t.Helper()
	id, err := rt.RunPodSandbox(t.Context(), podConfig(name), "")
	require.NoError(t, err)
	return id
}

func running(t testing.TB, rt *fake.Runtime) (sandboxID, containerID string) {
	t.Helper()
	return runningWith(t, rt, func(*runtimeapi.PodSandboxConfig, *runtimeapi.ContainerConfig) {})
}

func runningWith(t testing.TB, rt *fake.Runtime, change func(*runtimeapi.PodSandboxConfig, *runtimeapi.ContainerConfig)) (sandboxID, containerID string) {
	t.Helper()
	pod, config := podConfig("p"), containerConfig("p", "c")
	change(pod, config)
	sandboxID, err := rt.RunPodSandbox(t.Context(), pod, "")
	require.NoError(t, err)
	containerID, err = rt.CreateContainer(t.Context(), sandboxID, config, pod)
	require.NoError(t, err)
	require.NoError(t, rt.StartContainer(t.Context(), containerID))
	return sandboxID, containerID
}

func withInput(t testing.TB, rt *fake.Runtime) (containerID string) {
	t.Helper()
	_, id := runningWith(t, rt, func(_ *runtimeapi.PodSandboxConfig, c *runtimeapi.ContainerConfig) { c.Stdin = true })
	return id
}

// logs adds a log folder to a pod.
func logs(pod *runtimeapi.PodSandboxConfig) *runtimeapi.PodSandboxConfig {
	pod.LogDirectory = "/logs/" + pod.Metadata.Name
	return pod
}

// withLog starts a container that logs to /logs/p/c.log.
func withLog(t testing.TB, rt *fake.Runtime) (containerID string) {
	t.Helper()
	_, id := runningWith(t, rt, func(pod *runtimeapi.PodSandboxConfig, c *runtimeapi.ContainerConfig) {
		logs(pod)
		c.LogPath = "c.log"
	})
	return id
}

func statusOf(t testing.TB, rt *fake.Runtime, id string) *runtimeapi.ContainerStatus {
	t.Helper()
	response, err := rt.ContainerStatus(t.Context(), id, false)
	require.NoError(t, err)
	return response.Status
}

// dialer serves rt in memory until the test ends, and returns its dial function.
func dialer(t *testing.T, rt *fake.Runtime) func(context.Context, string) (net.Conn, error) {
	t.Helper()
	listener := fake.Listen()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- rt.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-served)
	})
	return func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
}

// dial serves rt in memory and returns a connection to it.
func dial(t *testing.T, rt *fake.Runtime) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///memory",
		grpc.WithContextDialer(dialer(t, rt)), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

type memoryLogs struct {
	mu    sync.Mutex
	files map[string]*memoryLog
}

type memoryLog struct {
	logs *memoryLogs
	bytes.Buffer
	closed bool
}

func (l *memoryLogs) open(path string) (io.WriteCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files == nil {
		l.files = map[string]*memoryLog{}
	}
	f := &memoryLog{logs: l}
	l.files[path] = f
	return f, nil
}

func (l *memoryLogs) text(path string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files[path] == nil {
		return ""
	}
	return l.files[path].String()
}

func (f *memoryLog) Write(p []byte) (int, error) {
	f.logs.mu.Lock()
	defer f.logs.mu.Unlock()
	return f.Buffer.Write(p)
}

func (f *memoryLog) Close() error {
	f.logs.mu.Lock()
	defer f.logs.mu.Unlock()
	f.closed = true
	return nil
}

// stubborn ignores its signals and ends only with its context.
func stubborn(ctx context.Context, p *fake.Process) int {
	signals := p.Signals()
	for {
		select {
		case <-signals:
		case <-ctx.Done():
			return 0
		}
	}
}

// after returns a program that exits with a code after d.
func after(d time.Duration, code int) fake.Program {
	return func(ctx context.Context, _ *fake.Process) int {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return code
		case <-ctx.Done():
			return 0
		}
	}
}

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

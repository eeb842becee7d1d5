package streams_test

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/streams"
)

// inBubbles runs a test in a bubble with each protocol.
func inBubbles(t *testing.T, cfg fake.Config, test func(t *testing.T, n *fakeNode)) {
	inProtocols(t, func(t *testing.T, protocol streams.Protocol) {
		n := newFakeNode(t, cfg)
		n.client.Protocol = protocol
		test(t, n)
	})
}

func inProtocols(t *testing.T, test func(t *testing.T, protocol streams.Protocol)) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, protocol) })
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// maxConnections is MaxConnections of a fakeNode's stream server.
const maxConnections = 20

// fakeNode is a fake with a stream server on an in-memory listener.
type fakeNode struct {
	*fake.Runtime
	client *streams.Client
	stop   func() // stops the stream server and waits for it

	sandbox string
}

func newFakeNode(t *testing.T, cfg fake.Config) *fakeNode {
	t.Helper()
	listener := fake.Listen()
	server, err := streams.NewServer(streams.Config{Listener: listener, MaxConnections: maxConnections})
	require.NoError(t, err)
	cfg.Streams, cfg.AnyImage = server, true
	if cfg.OpenLog == nil {
		cfg.OpenLog = func(string) (io.WriteCloser, error) { return &logs{}, nil } // not on the disk
	}
	rt, err := fake.New(cfg)
	require.NoError(t, err)
	n := &fakeNode{Runtime: rt, client: &streams.Client{
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.DialContext(ctx) },
	}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, rt) }()
	stopped := false
	n.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-ended)
		}
	}
	t.Cleanup(func() {
		n.stop()
		require.NoError(t, rt.Close())
	})
	n.sandbox, err = rt.RunPodSandbox(t.Context(), podConfig(), "")
	require.NoError(t, err)
	return n
}

func podConfig() *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "default", Uid: "u"},
		LogDirectory: "/logs",
	}
}

func (n *fakeNode) start(t *testing.T, adapt func(*runtimeapi.ContainerConfig)) string {
	t.Helper()
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: &runtimeapi.ImageSpec{Image: "busybox"},
	}
	if adapt != nil {
		adapt(config)
	}
	id, err := n.CreateContainer(t.Context(), n.sandbox, config, podConfig())
	require.NoError(t, err)
	require.NoError(t, n.StartContainer(t.Context(), id))
	return id
}

// exec runs a command. Its request selects the streams that are set.
func (n *fakeNode) exec(ctx context.Context, t *testing.T, id string, s streams.Session, command ...string) (int, error) {
	t.Helper()
	response, err := n.Exec(t.Context(), &runtimeapi.ExecRequest{
		ContainerId: id, Cmd: command, Stdin: s.Stdin != nil, Stdout: s.Stdout != nil, Stderr: s.Stderr != nil, Tty: s.TTY,
	})
	require.NoError(t, err)
	return n.client.Exec(ctx, response.Url, s)
}

// attach attaches in the background; the channel receives the result.
func (n *fakeNode) attach(ctx context.Context, t *testing.T, id string, s streams.Session) <-chan error {
	t.Helper()
	response, err := n.Attach(t.Context(), &runtimeapi.AttachRequest{
		ContainerId: id, Stdin: s.Stdin != nil, Stdout: s.Stdout != nil, Stderr: s.Stderr != nil, Tty: s.TTY,
	})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- n.client.Attach(ctx, response.Url, s) }()
	return ended
}

func (n *fakeNode) forward(t *testing.T, port int) (io.ReadWriteCloser, error) {
	t.Helper()
	response, err := n.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: n.sandbox, Port: []int32{int32(port)}})
	require.NoError(t, err)
	return n.client.PortForward(t.Context(), response.Url, port)
}

func cat(_ context.Context, p *fake.Process) int {
	if _, err := io.Copy(p.Stdout, p.Stdin); err != nil {
		return 1
	}
	return 0
}

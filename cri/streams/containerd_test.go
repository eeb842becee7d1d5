package streams_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/streams"
	"github.com/podwright/podwright/internal/testkit/testcri"
)

// The tests in this file need real runtimes. examples/tools/testbed provides them and sets the
// variables with their endpoints. The tests prove that the client works with these runtimes.

// onContainerd runs a test on each runtime and with each protocol, with a running container.
func onContainerd(t *testing.T, adapt func(*runtimeapi.ContainerConfig), test func(t *testing.T, n *node, c *streams.Client)) {
	t.Helper()
	testcri.Each(t, func(t *testing.T, real testcri.Node) {
		n := newNode(t, real, adapt)
		for name, protocol := range protocols {
			t.Run(name, func(t *testing.T) { test(t, n, &streams.Client{Protocol: protocol}) })
		}
	})
}

var protocols = map[string]streams.Protocol{"SPDY": streams.SPDY, "WebSocket": streams.WebSocket}

type node struct {
	runtime            cri.RuntimeService
	sandbox, container string
}

func newNode(t *testing.T, real testcri.Node, adapt func(*runtimeapi.ContainerConfig)) *node {
	t.Helper()
	ctx, runtime, image := t.Context(), real.Runtime(t), real.Busybox
	_, err := real.Images(t).PullImage(ctx, &runtimeapi.ImageSpec{Image: image}, nil, nil)
	require.NoError(t, err)

	uid := strings.ToLower(rand.Text())
	pod := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "streams-" + uid[:6], Namespace: "streams", Uid: uid},
		LogDirectory: t.TempDir(), Linux: &runtimeapi.LinuxPodSandboxConfig{},
	}
	n := &node{runtime: runtime}
	n.sandbox, err = runtime.RunPodSandbox(ctx, pod, "")
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		require.NoError(t, runtime.StopPodSandbox(ctx, n.sandbox))
		require.NoError(t, runtime.RemovePodSandbox(ctx, n.sandbox))
	})
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
		Image:    &runtimeapi.ImageSpec{Image: image},
		Command:  []string{"sleep", "3600"}, LogPath: "c.log", Linux: &runtimeapi.LinuxContainerConfig{},
	}
	if adapt != nil {
		adapt(config)
	}
	n.container, err = runtime.CreateContainer(ctx, n.sandbox, config, pod)
	require.NoError(t, err)
	require.NoError(t, runtime.StartContainer(ctx, n.container))
	return n
}

func (n *node) exec(t *testing.T, request *runtimeapi.ExecRequest) string {
	t.Helper()
	request.ContainerId = n.container
	response, err := n.runtime.Exec(t.Context(), request)
	require.NoError(t, err)
	return response.Url
}

func TestContainerdExecTTY(t *testing.T) {
	onContainerd(t, nil, func(t *testing.T, n *node, c *streams.Client) {
		var stdout bytes.Buffer
		resize := make(chan streams.Size, 1)
		resize <- streams.Size{Width: 77, Height: 33}
		url := n.exec(t, &runtimeapi.ExecRequest{
			Cmd: []string{"sh", "-c", `until [ "$(stty size)" = "33 77" ]; do sleep 0.05; done; tty >&2; exit 3`}, Stdin: true, Stdout: true, Tty: true,
		})
		// containerd loses the output of a terminal whose input has ended. Over a WebSocket a
		// missing input counts as ended, too.
		stdin, _ := io.Pipe()
		code, err := c.Exec(t.Context(), url, streams.Session{Stdin: stdin, Stdout: &stdout, TTY: true, Resize: resize})
		require.NoError(t, err)
		require.Equal(t, 3, code)
		require.Regexp(t, "/dev/pts/[0-9]+\r\n$", stdout.String())
	})
}

func TestContainerdAttach(t *testing.T) {
	ticker := func(c *runtimeapi.ContainerConfig) {
		c.Command, c.Stdin = []string{"sh", "-c", "while read line; do echo got $line; echo err $line >&2; done"}, true
	}
	onContainerd(t, ticker, func(t *testing.T, n *node, c *streams.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		response, err := n.runtime.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: n.container, Stdin: true, Stdout: true, Stderr: true})
		require.NoError(t, err)
		stdin, feed := io.Pipe()
		stdout, stderr := make(chan string, 1), make(chan string, 1)
		done := make(chan error, 1)
		go func() {
			done <- c.Attach(ctx, response.Url, streams.Session{Stdin: stdin, Stdout: firstLine(stdout), Stderr: firstLine(stderr)})
		}()
		// containerd connects the input before the outputs, so they may miss the first lines.
		require.Eventually(t, func() bool {
			_, err := io.WriteString(feed, "hello\n")
			return err == nil && len(stdout) > 0 && len(stderr) > 0
		}, time.Minute, 50*time.Millisecond)
		require.Equal(t, "got hello", <-stdout)
		require.Equal(t, "err hello", <-stderr)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

// firstLine returns a writer that sends its first line to a channel.
func firstLine(to chan<- string) io.Writer {
	var text []byte
	return writerFunc(func(p []byte) (int, error) {
		text = append(text, p...)
		if line, _, ended := strings.Cut(string(text), "\n"); ended {
			select {
			case to <- line:
			default:
			}
		}
		return len(p), nil
	})
}

func read(t *testing.T, from io.Reader, n int) string {
	t.Helper()
	text := make([]byte, n)
	_, err := io.ReadFull(from, text)
	require.NoError(t, err)
	return string(text)
}

func TestContainerdPortForward(t *testing.T) {
	server := func(c *runtimeapi.ContainerConfig) {
		c.Command = []string{"sh", "-c", "while true; do nc -l -p 8080 -e sh -c 'read a; echo you said $a'; done"}
	}
	onContainerd(t, server, func(t *testing.T, n *node, c *streams.Client) {
		session := func(port int32) string {
			response, err := n.runtime.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: n.sandbox, Port: []int32{port}})
			require.NoError(t, err)
			return response.Url
		}
		require.Eventually(t, func() bool {
			conn, err := c.PortForward(t.Context(), session(8080), 8080)
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "hello\n")
			if err != nil {
				return false
			}
			answer := make([]byte, 15)
			_, err = io.ReadFull(conn, answer)
			return err == nil && string(answer) == "you said hello\n"
		}, time.Minute, 50*time.Millisecond)

		conn, err := c.PortForward(t.Context(), session(9), 9)
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
		var status *streams.StatusError
		require.ErrorAs(t, err, &status)
		require.Contains(t, status.Message, "refused")
	})
}

package streams_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/embedded"
	"github.com/podwright/podwright/cri/streams"
)

// newHostNode returns a node whose containers are host processes, with its stream server on a real
// socket.
func newHostNode(t *testing.T, network string) *fakeNode {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "streams.sock")
	}
	listener, err := net.Listen(network, address)
	require.NoError(t, err)
	server, err := streams.NewServer(streams.Config{Listener: listener})
	require.NoError(t, err)
	rt, err := embedded.New(embedded.Config{StateDir: t.TempDir(), Streams: server})
	require.NoError(t, err)
	n := &fakeNode{Runtime: rt.Runtime, client: &streams.Client{}}
	if network == "unix" {
		n.client.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", address)
		}
	}
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	until(t, func(ctx context.Context) error { return server.Run(ctx, rt) })
	pod := podConfig()
	pod.LogDirectory = t.TempDir()
	n.sandbox, err = rt.RunPodSandbox(t.Context(), pod, "")
	require.NoError(t, err)
	return n
}

func TestEmbedded(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for name, protocol := range protocols {
			t.Run(network+" "+name, func(t *testing.T) {
				n := newHostNode(t, network)
				n.client.Protocol = protocol
				id := n.start(t, func(c *runtimeapi.ContainerConfig) {
					c.Command = []string{"sh", "-c", "while read line; do echo got $line; done; sleep 1000"}
					c.Stdin = true
				})
				testHostExec(t, n, id)
				testHostTerminal(t, n, id)
			})
		}
	}
}

func testHostExec(t *testing.T, n *fakeNode, id string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	text := strings.Repeat("0123456789", 20000)
	code, err := n.exec(t.Context(), t, id, streams.Session{Stdin: strings.NewReader(text), Stdout: &stdout, Stderr: &stderr},
		"sh", "-c", "head -c 200000; echo err >&2; exit 3")
	require.NoError(t, err)
	require.Equal(t, 3, code)
	require.Equal(t, text, stdout.String())
	require.Equal(t, "err\n", stderr.String())
}

func testHostTerminal(t *testing.T, n *fakeNode, id string) {
	t.Helper()
	stdin, feed := io.Pipe()
	out, stdout := io.Pipe()
	resize := make(chan streams.Size, 1)
	resize <- streams.Size{Width: 77, Height: 33}
	done := make(chan int, 1)
	go func() {
		code, err := n.exec(t.Context(), t, id, streams.Session{Stdin: stdin, Stdout: stdout, TTY: true, Resize: resize},
			"sh", "-c", `stty -echo; until [ "$(stty size)" = "33 77" ]; do sleep 0.02; done; echo $TERM; read line; echo "got $line"; exit 4`)
		require.NoError(t, err)
		done <- code
	}()
	require.Equal(t, "xterm\r\n", read(t, out, 7))
	_, err := io.WriteString(feed, "hello\n")
	require.NoError(t, err)
	require.Equal(t, "got hello\r\n", read(t, out, 11))
	require.Equal(t, 4, <-done)
}

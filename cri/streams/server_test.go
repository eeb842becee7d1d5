package streams_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/streams"
)

var commands = fake.ByCommand(map[string]fake.Program{
	"cat": cat,
	"head": func(_ context.Context, p *fake.Process) int {
		text := make([]byte, 10)
		_, _ = io.ReadFull(p.Stdin, text)
		fmt.Fprintf(p.Stdout, "%s\n", text)
		return 0
	},
	"both": func(_ context.Context, p *fake.Process) int {
		fmt.Fprintln(p.Stdout, "out")
		fmt.Fprintln(p.Stderr, "err")
		return 42
	},
	"big": func(_ context.Context, p *fake.Process) int {
		for range 1000 {
			if _, err := p.Stdout.Write(bytes.Repeat([]byte("x"), 1000)); err != nil {
				return 1
			}
		}
		return 0
	},
	"size": func(ctx context.Context, p *fake.Process) int {
		for size := range p.Resize {
			fmt.Fprintf(p.Stderr, "%dx%d %v\n", size.Width, size.Height, p.TTY)
			if size.Width == 100 {
				return 0
			}
		}
		return 1
	},
	"sleep": fake.SleepUntilStopped,
	"panic": func(context.Context, *fake.Process) int { panic("oh no") },
}, nil)

func TestExec(t *testing.T) {
	inBubbles(t, fake.Config{Exec: commands}, func(t *testing.T, n *fakeNode) {
		id := n.start(t, nil)
		var both, stdout, stderr, all bytes.Buffer
		for _, c := range []struct {
			command string
			s       streams.Session
			code    int
		}{
			{"both", streams.Session{Stdout: &both, Stderr: &stderr}, 42},
			{"both", streams.Session{Stdout: &stdout}, 42},
			{"big", streams.Session{Stdout: &all}, 0},
		} {
			code, err := n.exec(t.Context(), t, id, c.s, c.command)
			require.NoError(t, err)
			require.Equal(t, c.code, code)
		}
		require.Equal(t, "out\nerr\nout\n", both.String()+stderr.String()+stdout.String())
		require.Equal(t, 1000_000, all.Len())

		_, err := n.exec(t.Context(), t, id, streams.Session{Stdout: &stdout}, "no-such-command")
		var failed *streams.StatusError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, 500, failed.Code)
		require.Contains(t, failed.Message, "executable file not found")
	})
}

func TestExecStdin(t *testing.T) {
	inBubbles(t, fake.Config{Exec: commands}, func(t *testing.T, n *fakeNode) {
		id := n.start(t, nil)
		text := strings.Repeat("0123456789", 30000)
		var stdout bytes.Buffer
		s := streams.Session{Stdin: strings.NewReader(text), Stdout: &stdout}
		if n.client.Protocol == streams.WebSocket { // v4 cannot send the end of stdin
			code, err := n.exec(t.Context(), t, id, s, "head")
			require.NoError(t, err)
			require.Zero(t, code)
			require.Equal(t, "0123456789\n", stdout.String())
			return
		}
		code, err := n.exec(t.Context(), t, id, s, "cat")
		require.NoError(t, err)
		require.Zero(t, code)
		require.Equal(t, text, stdout.String())
	})
}

// When a client disconnects, its command is killed.
func TestExecEndsWithConnection(t *testing.T) {
	killed := make(chan struct{})
	cfg := fake.Config{Exec: fake.Always(func(ctx context.Context, p *fake.Process) int {
		fmt.Fprintln(p.Stdout, "up")
		<-ctx.Done()
		killed <- struct{}{}
		return 0
	})}
	inProtocols(t, func(t *testing.T, protocol streams.Protocol) {
		killed = make(chan struct{}, 1)
		n := newFakeNode(t, cfg)
		n.client.Protocol = protocol
		id := n.start(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := n.exec(ctx, t, id, streams.Session{Stdout: writerFunc(func(p []byte) (int, error) {
			cancel()
			return len(p), nil
		})}, "sleep")
		require.ErrorIs(t, err, context.Canceled)
		<-killed
	})
}

func TestServerEnds(t *testing.T) {
	inBubbles(t, fake.Config{Exec: commands, Ports: echo}, func(t *testing.T, n *fakeNode) {
		id := n.start(t, func(c *runtimeapi.ContainerConfig) { c.Stdin = true })
		done := make(chan error, 1)
		go func() {
			_, err := n.exec(t.Context(), t, id, streams.Session{Stdout: io.Discard}, "sleep")
			done <- err
		}()
		stdin, feed := io.Pipe()
		attached := n.attach(t.Context(), t, id, streams.Session{Stdin: stdin, Stdout: io.Discard})
		conn, err := n.forward(t, 80)
		require.NoError(t, err)
		defer conn.Close()
		synctest.Wait()
		n.stop()
		require.Error(t, <-done)
		require.Error(t, <-attached)
		_, err = conn.Read(make([]byte, 1))
		require.Error(t, err)
		require.NoError(t, feed.Close())
		_, err = n.Exec(t.Context(), &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"cat"}, Stdout: true})
		require.Equal(t, codes.Unavailable, status.Code(err))
	})
}

// The conformance suite covers the refused requests. This test covers the reasons, and sessions
// that begin too late.
func TestRefusedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t, fake.Config{Exec: commands})
		ctx, id := t.Context(), n.start(t, nil)
		request := &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"ls"}, Stdout: true}
		_, err := n.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: n.sandbox, Cmd: []string{"ls"}, Stdout: true})
		require.Equal(t, codes.NotFound, status.Code(err))
		_, err = n.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: id, Stdout: true})
		require.NoError(t, err, "a missing command is found in the session")
		late, err := n.Exec(ctx, request)
		require.NoError(t, err)
		lateForward, err := n.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: n.sandbox})
		require.NoError(t, err)
		require.NoError(t, n.StopContainer(ctx, id, 0))
		const exited = "container is in CONTAINER_EXITED state"
		_, err = n.Exec(ctx, request)
		require.ErrorContains(t, err, exited)
		_, err = n.Attach(ctx, &runtimeapi.AttachRequest{ContainerId: id, Stdout: true})
		require.ErrorContains(t, err, exited)
		_, err = n.client.Exec(ctx, late.Url, streams.Session{Stdout: io.Discard})
		require.ErrorContains(t, err, exited)
		require.NoError(t, n.StopPodSandbox(ctx, n.sandbox))
		_, err = n.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: n.sandbox, Port: []int32{80}})
		require.ErrorContains(t, err, "sandbox container is not running")
		conn, err := n.client.PortForward(ctx, lateForward.Url, 80)
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
		require.ErrorContains(t, err, "network namespace for sandbox")
	})
}

func TestTokens(t *testing.T) {
	inBubbles(t, fake.Config{Exec: commands}, func(t *testing.T, n *fakeNode) {
		id := n.start(t, nil)
		request := &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"both"}, Stdout: true}
		used, err := n.Exec(t.Context(), request)
		require.NoError(t, err)
		_, err = n.client.Exec(t.Context(), used.Url, streams.Session{Stdout: io.Discard})
		require.NoError(t, err)
		old, err := n.Exec(t.Context(), request)
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		for _, url := range []string{used.Url, old.Url, "http://localhost/exec/nothing"} {
			_, err = n.client.Exec(t.Context(), url, streams.Session{Stdout: io.Discard})
			var failed *streams.StatusError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, 404, failed.Code)
			require.EqualError(t, err, "exec session: 404 NotFound: 404 page not found")
		}
	})
}

// echo listens on port 80 and returns all data.
func echo(_ context.Context, _ fake.PodIdentity, port int) (net.Conn, error) {
	if port != 80 {
		return nil, fmt.Errorf("dial tcp4 127.0.0.1:%d: connect: connection refused", port)
	}
	ours, theirs := net.Pipe()
	go func() {
		_, _ = io.Copy(ours, ours)
		_ = ours.Close()
	}()
	return theirs, nil
}

func TestPortForward(t *testing.T) {
	inBubbles(t, fake.Config{Ports: echo}, func(t *testing.T, n *fakeNode) {
		conn, err := n.forward(t, 80)
		require.NoError(t, err)
		for range 3 {
			_, err = io.WriteString(conn, "hello")
			require.NoError(t, err)
			require.Equal(t, "hello", read(t, conn, 5))
		}
		require.NoError(t, conn.Close())

		refused, err := n.forward(t, 81)
		require.NoError(t, err)
		_, err = refused.Read(make([]byte, 1))
		var failed *streams.StatusError
		require.ErrorAs(t, err, &failed)
		require.Contains(t, failed.Message, "connection refused")
		require.NoError(t, refused.Close())

		open, err := n.forward(t, 80)
		require.NoError(t, err)
		_, err = io.WriteString(open, "hello")
		require.NoError(t, err)
		require.Equal(t, "hello", read(t, open, 5))
		require.NoError(t, n.StopPodSandbox(t.Context(), n.sandbox))
		_, err = open.Read(make([]byte, 1))
		require.ErrorContains(t, err, "the sandbox has stopped")
		require.NoError(t, open.Close())
	})
}

// One session carries several independent connections.
func TestForwarding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t, fake.Config{Ports: echo})
		response, err := n.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: n.sandbox})
		require.NoError(t, err)
		f, err := n.client.Forward(t.Context(), response.Url)
		require.NoError(t, err)
		var conns []*streams.PortConn
		for i := range 10 {
			conn, err := f.Dial(80)
			require.NoError(t, err)
			_, err = fmt.Fprintf(conn, "conn %d", i)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("conn %d", i), read(t, conn, 6))
			conns = append(conns, conn)
		}
		for i, conn := range conns {
			_, err = fmt.Fprintf(conn, "more %d", i)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("more %d", i), read(t, conn, 6))
			require.NoError(t, conn.Close())
		}
		require.NoError(t, f.Close())
	})
}

// After CloseWrite the connection ends a second later, as in containerd.
func TestPortForwardHalfClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t, fake.Config{Ports: echo})
		conn, err := n.forward(t, 80)
		require.NoError(t, err)
		begin := time.Now()
		require.NoError(t, conn.(*streams.PortConn).CloseWrite())
		_, err = conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, time.Second, time.Since(begin))
		require.NoError(t, conn.Close())
	})
}

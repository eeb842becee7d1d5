package streams_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/streams"
)

type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) Close() error { return nil }

// lines returns the streams and contents of the log's lines.
func (l *logs) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for line := range strings.Lines(l.text.String()) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		lines = append(lines, rest)
	}
	return lines
}

// loggedNode returns a node whose containers run program and share one log.
func loggedNode(t *testing.T, protocol streams.Protocol, program fake.Program) (*fakeNode, *logs) {
	log := &logs{}
	n := newFakeNode(t, fake.Config{Programs: fake.Always(program), OpenLog: func(string) (io.WriteCloser, error) { return log, nil }})
	n.client.Protocol = protocol
	return n, log
}

// parrot repeats its input on both outputs, line by line.
func parrot(_ context.Context, p *fake.Process) int {
	fmt.Fprintln(p.Stdout, "before anybody came")
	buffer := make([]byte, 1000)
	for {
		n, err := p.Stdin.Read(buffer)
		if err != nil {
			fmt.Fprintln(p.Stdout, "bye")
			return 5
		}
		fmt.Fprintf(p.Stdout, "out %s", buffer[:n])
		fmt.Fprintf(p.Stderr, "err %s", buffer[:n])
	}
}

func withStdin(c *runtimeapi.ContainerConfig) { c.Stdin, c.LogPath = true, "c.log" }

// Two clients of one container both receive all output since they attached, and either may send
// input.
func TestAttach(t *testing.T) {
	inProtocols(t, func(t *testing.T, protocol streams.Protocol) {
		n, log := loggedNode(t, protocol, parrot)
		id := n.start(t, withStdin)
		synctest.Wait()
		stdin, feed := io.Pipe()
		out1, stdout1 := io.Pipe()
		err1, stderr1 := io.Pipe()
		out2, stdout2 := io.Pipe()
		ctx, leave := context.WithCancel(t.Context())
		first := n.attach(t.Context(), t, id, streams.Session{Stdin: stdin, Stdout: stdout1, Stderr: stderr1})
		second := n.attach(ctx, t, id, streams.Session{Stdout: stdout2})
		synctest.Wait()
		_, err := io.WriteString(feed, "one\n")
		require.NoError(t, err)
		require.Equal(t, "out one\n", read(t, out1, 8))
		require.Equal(t, "out one\n", read(t, out2, 8))
		require.Equal(t, "err one\n", read(t, err1, 8))
		leave()
		require.ErrorIs(t, <-second, context.Canceled)
		_, err = io.WriteString(feed, "two\n")
		require.NoError(t, err)
		require.Equal(t, "out two\n", read(t, out1, 8))
		require.Equal(t, "err two\n", read(t, err1, 8))
		go func() { _, _ = io.Copy(io.Discard, out1) }() // read the remaining output
		require.NoError(t, n.StopContainer(t.Context(), id, 0))
		require.NoError(t, <-first)
		require.NoError(t, stdout1.Close())
		require.Equal(t, []string{
			"stdout F before anybody came", "stdout F out one", "stderr F err one", "stdout F out two", "stderr F err two",
		}, log.lines()[:5])
	})
}

// A container with a terminal has one output, and receives sizes from its clients.
func TestAttachTerminal(t *testing.T) {
	inProtocols(t, func(t *testing.T, protocol streams.Protocol) {
		n, log := loggedNode(t, protocol, func(ctx context.Context, p *fake.Process) int {
			select {
			case size := <-p.Resize:
				fmt.Fprintf(p.Stderr, "%dx%d\n", size.Width, size.Height)
			case <-ctx.Done():
			}
			return 0
		})
		id := n.start(t, func(c *runtimeapi.ContainerConfig) { c.Tty, c.LogPath = true, "c.log" })
		resize := make(chan streams.Size, 1)
		resize <- streams.Size{Width: 80, Height: 25}
		var stdout bytes.Buffer
		require.NoError(t, <-n.attach(t.Context(), t, id, streams.Session{Stdout: &stdout, TTY: true, Resize: resize}))
		require.Equal(t, "80x25\n", stdout.String())
		require.Equal(t, []string{"stdout F 80x25"}, log.lines())
	})
}

// A client that does not read blocks the program, but not its end.
func TestAttachSlowClient(t *testing.T) {
	inProtocols(t, func(t *testing.T, protocol streams.Protocol) {
		n, log := loggedNode(t, protocol, func(ctx context.Context, p *fake.Process) int {
			for ctx.Err() == nil {
				fmt.Fprintln(p.Stdout, strings.Repeat("x", 999))
				time.Sleep(10 * time.Millisecond)
			}
			return 0
		})
		id := n.start(t, func(c *runtimeapi.ContainerConfig) { c.LogPath = "c.log" })
		for _, leave := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			unread, stdout := io.Pipe()
			ended := n.attach(ctx, t, id, streams.Session{Stdout: stdout})
			time.Sleep(10 * time.Second)
			before := len(log.lines())
			time.Sleep(10 * time.Second)
			require.Len(t, log.lines(), before, "the program waits for the client")
			if leave {
				cancel()
				require.NoError(t, unread.Close())
				require.Error(t, <-ended)
				time.Sleep(10 * time.Second)
				require.Greater(t, len(log.lines()), before)
				continue
			}
			begin := time.Now()
			require.NoError(t, n.StopContainer(t.Context(), id, 0))
			require.LessOrEqual(t, time.Since(begin), 10*time.Millisecond, "the program ends at once")
			require.NoError(t, unread.Close())
			<-ended
			cancel()
		}
	})
}

// A runtime that stops disconnects attached clients; after its restart they can attach again.
func TestAttachOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(t, fake.Config{Programs: fake.Always(parrot)})
		id := n.start(t, withStdin)
		synctest.Wait()
		first := n.attach(t.Context(), t, id, streams.Session{Stdout: io.Discard})
		synctest.Wait()
		require.NoError(t, n.Restart(t.Context(), fake.LoseNothing))
		require.Error(t, <-first)
		stdin, feed := io.Pipe()
		out, stdout := io.Pipe()
		second := n.attach(t.Context(), t, id, streams.Session{Stdin: stdin, Stdout: stdout})
		_, err := io.WriteString(feed, "again\n")
		require.NoError(t, err)
		require.Equal(t, "out again\n", read(t, out, 10))
		require.NoError(t, feed.Close())
		require.NoError(t, <-second)
	})
}

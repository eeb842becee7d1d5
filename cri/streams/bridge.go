package streams

import (
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/podwright/podwright/cri/fake"
)

var _ streaming.Runtime = (*bridge)(nil)

// bridge is the runtime that cri-streaming uses. It runs sessions on the real runtime and ends
// them all when the server ends.
type bridge struct {
	sessions sync.WaitGroup

	mu      sync.Mutex
	runtime Runtime
	over    bool
	running map[*context.CancelCauseFunc]struct{}
}

func newBridge() *bridge { return &bridge{running: map[*context.CancelCauseFunc]struct{}{}} }

// begin sets the runtime. It reports whether this is the first call.
func (b *bridge) begin(runtime Runtime) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runtime != nil {
		return false
	}
	b.runtime = runtime
	return true
}

// stopped returns an error after the server has ended.
func (b *bridge) stopped() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return stoppedError()
	}
	return nil
}

// end ends all sessions and prevents new ones.
func (b *bridge) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	for cancel := range b.running {
		(*cancel)(stoppedError())
	}
}

// enter starts a session; leave ends it.
func (b *bridge) enter(ctx context.Context) (bounded context.Context, runtime Runtime, leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil, nil, nil, stoppedError()
	}
	bounded, cancel := context.WithCancelCause(ctx)
	b.running[&cancel] = struct{}{}
	b.sessions.Add(1)
	return bounded, b.runtime, func() {
		cancel(nil)
		b.mu.Lock()
		delete(b.running, &cancel)
		b.mu.Unlock()
		b.sessions.Done()
	}, nil
}

// Exec implements streaming.Runtime.
func (b *bridge) Exec(ctx context.Context, id string, command []string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	ctx, runtime, leave, refused := b.enter(ctx)
	if refused != nil {
		return refused
	}
	defer leave()
	id, s := session(ctx, id, streamsOf{in, out, err, tty, resize})
	code, failed := runtime.ExecSession(ctx, id, command, s)
	switch {
	case failed != nil:
		return failed
	case code != 0:
		return exitError(code)
	}
	return nil
}

// Attach implements streaming.Runtime.
func (b *bridge) Attach(ctx context.Context, id string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	ctx, runtime, leave, refused := b.enter(ctx)
	if refused != nil {
		return refused
	}
	defer leave()
	id, s := session(ctx, id, streamsOf{in, out, err, tty, resize})
	return runtime.AttachSession(ctx, id, s)
}

// PortForward implements streaming.Runtime. ctx does not belong to a session: the stream ends with
// its connection.
func (b *bridge) PortForward(ctx context.Context, id string, port int32, stream io.ReadWriteCloser) error {
	ctx, runtime, leave, refused := b.enter(ctx)
	if refused != nil {
		return refused
	}
	defer leave()
	if err := acknowledged(ctx, stream); err != nil {
		return err
	}
	return runtime.PortForwardSession(ctx, id, int(port), duplex{stream})
}

// replyTimeout bounds the acknowledgement of an SPDY stream. Only a connection that breaks
// meanwhile takes long.
const replyTimeout = 10 * time.Second

// acknowledged waits until the client has received the acknowledgement of an SPDY stream, which
// cri-streaming sends while it starts the session. If the session failed earlier, the client would
// not receive the reason, and cri-streaming would try forever to close the stream.
func acknowledged(ctx context.Context, stream io.Writer) error {
	if _, ok := stream.(resetter); !ok {
		return nil
	}
	told := make(chan error, 1)
	go func() {
		_, err := stream.Write(nil) // waits for the acknowledgement
		told <- err
	}()
	timer := time.NewTimer(replyTimeout)
	defer timer.Stop()
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return errConnectionLost
	}
}

// The prefixes of a container's ID that record whether the request had stdin. cri-streaming does
// not pass this on, and over a WebSocket its sessions always have a stdin, which is then empty.
const (
	withStdin    = "stdin:"
	withoutStdin = "none:"
)

func mark(id string, stdin bool) string {
	if stdin {
		return withStdin + id
	}
	return withoutStdin + id
}

// exitError is a nonzero exit code in the form of k8s.io/utils/exec.
type exitError int

func (e exitError) Error() string   { return "exit status " + strconv.Itoa(int(e)) }
func (e exitError) String() string  { return e.Error() }
func (e exitError) Exited() bool    { return true }
func (e exitError) ExitStatus() int { return int(e) }

type streamsOf struct {
	in       io.Reader
	out, err io.WriteCloser
	tty      bool
	resize   <-chan remotecommand.TerminalSize
}

// session converts the streams to those of package fake, and removes the prefix from id.
func session(ctx context.Context, id string, of streamsOf) (string, fake.Session) {
	s := fake.Session{TTY: of.tty}
	id, stdin := unmark(id)
	if stdin && of.in != nil {
		s.Stdin = input{of.in}
	}
	if of.out != nil {
		s.Stdout = of.out
	}
	if of.err != nil && !of.tty {
		s.Stderr = of.err
	}
	if of.tty && of.resize != nil {
		s.Resize = sizes(ctx, of.resize)
	}
	return id, s
}

func unmark(id string) (string, bool) {
	if id, ok := strings.CutPrefix(id, withStdin); ok {
		return id, true
	}
	return strings.TrimPrefix(id, withoutStdin), false
}

// sizes converts sizes until ctx ends, at the latest with the session.
func sizes(ctx context.Context, from <-chan remotecommand.TerminalSize) <-chan fake.TerminalSize {
	to := make(chan fake.TerminalSize)
	go func() {
		defer close(to)
		for {
			select {
			case <-ctx.Done():
				return
			case size, ok := <-from:
				if !ok {
					return
				}
				select {
				case <-ctx.Done():
					return
				case to <- fake.TerminalSize(size):
				}
			}
		}
	}()
	return to
}

// resetter is an SPDY stream. Its Close ends only the sending direction.
type resetter interface{ Reset() error }

// input is a standard input that can be closed during a Read.
type input struct{ io.Reader }

// Close ends a blocked Read.
func (i input) Close() error {
	switch in := i.Reader.(type) {
	case resetter:
		return in.Reset()
	case io.Closer:
		return in.Close()
	}
	return nil
}

// duplex is a stream whose Close ends both directions.
type duplex struct{ io.ReadWriteCloser }

// Close also ends a blocked Read.
func (d duplex) Close() error {
	if stream, ok := d.ReadWriteCloser.(resetter); ok {
		// Data already written is still sent, then both directions end.
		return stream.Reset()
	}
	return d.ReadWriteCloser.Close()
}

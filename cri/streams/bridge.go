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

// bridge is the runtime that cri-streaming sees: it runs sessions on the real
// one, and ends them all at the server's end.
type bridge struct {
	sessions sync.WaitGroup

	mu      sync.Mutex
	runtime Runtime
	over    bool
	running map[*context.CancelCauseFunc]struct{}
}

func newBridge() *bridge { return &bridge{running: map[*context.CancelCauseFunc]struct{}{}} }

// begin tells whether it is the first.
func (b *bridge) begin(runtime Runtime) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runtime != nil {
		return false
	}
	b.runtime = runtime
	return true
}

// gone tells that no session will ever be served again.
func (b *bridge) gone() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return goneError()
	}
	return nil
}

// end ends all sessions. There are no further ones.
func (b *bridge) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	for cancel := range b.running {
		(*cancel)(goneError())
	}
}

// enter begins a session; leave ends it.
func (b *bridge) enter(ctx context.Context) (bounded context.Context, runtime Runtime, leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil, nil, nil, goneError()
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

// PortForward implements streaming.Runtime. ctx is no session's: the stream ends
// with its connection.
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

// replyPatience is how long a stream of SPDY may take to be acknowledged. Only a
// connection that breaks meanwhile takes long.
const replyPatience = 10 * time.Second

// acknowledged waits until the client has been told that a stream of SPDY is
// open, which cri-streaming does at the same time as it asks for the session. A
// session that failed before would leave the client without the reason, and
// cri-streaming with a stream that it closes in vain for ever.
func acknowledged(ctx context.Context, stream io.Writer) error {
	if _, ok := stream.(resetter); !ok {
		return nil
	}
	told := make(chan error, 1)
	go func() {
		_, err := stream.Write(nil) // waits for the reply
		told <- err
	}()
	patience := time.NewTimer(replyPatience)
	defer patience.Stop()
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-patience.C:
		return errGone
	}
}

// The marks before a container's ID: cri-streaming does not tell whether stdin
// was asked for, and over a WebSocket always has one, which then is at its end.
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

// exitError is an exit code other than zero, in the form of k8s.io/utils/exec.
type exitError int

func (e exitError) Error() string   { return "exit status " + strconv.Itoa(int(e)) }
func (e exitError) String() string  { return e.Error() }
func (e exitError) Exited() bool    { return true }
func (e exitError) ExitStatus() int { return int(e) }

// streamsOf are the streams of a session as cri-streaming gives them.
type streamsOf struct {
	in       io.Reader
	out, err io.WriteCloser
	tty      bool
	resize   <-chan remotecommand.TerminalSize
}

// session makes the streams those of package fake, and takes the mark off id.
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

// sizes translates sizes until ctx ends, which is at the latest when the session
// does.
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

// resetter is a stream of SPDY. Its Close ends only what this side sends.
type resetter interface{ Reset() error }

// input is standard input that can be closed while it is read.
type input struct{ io.Reader }

// Close lets go of a Read.
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

// Close lets go of a Read, too.
func (d duplex) Close() error {
	if stream, ok := d.ReadWriteCloser.(resetter); ok {
		// What was written comes first; then nothing goes on either way.
		return stream.Reset()
	}
	return d.ReadWriteCloser.Close()
}

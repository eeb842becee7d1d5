package fake

import (
	"context"
	"io"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A StreamServer hands out the URLs of sessions and serves them: package
// cri/streams has one. The requests that it gets have been checked against what exists, not
// for which streams they ask. When a client comes it calls ExecSession,
// AttachSession or PortForwardSession of the Runtime.
type StreamServer interface {
	// GetExec gives the URL of a session for an exec request. It refuses,
	// with code InvalidArgument, one that asks for no stream, or for stderr
	// together with a terminal.
	GetExec(request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error)
	// GetAttach is GetExec for an attach request.
	GetAttach(request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error)
	// GetPortForward gives the URL of a session for a port-forward request.
	GetPortForward(request *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error)
}

// Session is the streams that a client of exec or attach gives and takes.
type Session struct {
	// Stdin is what the command reads. nil: its input is at its end. When it
	// is also an io.Closer it is closed at the end of the session, and the
	// session waits for its Read; else that may outlive the session.
	Stdin io.Reader
	// Stdout and Stderr take the output; nil drops it. A Write that blocks
	// holds the program up, and must return once the session's context ends.
	// When one fails, the stream is closed for the program (exec) or is left
	// out from then on (attach). With TTY all output goes to Stdout.
	Stdout, Stderr io.Writer
	// TTY runs a command with a terminal. For an attach it tells that the
	// client has one, which changes what the end of Stdin means.
	TTY bool
	// Resize delivers the sizes of the terminal. nil: none.
	Resize <-chan TerminalSize
}

// TerminalSize is the size of a terminal, in characters.
type TerminalSize struct {
	Width, Height uint16
}

// resizer hands sizes to a program: the newest that it has not seen, as with
// SIGWINCH. A nil resizer drops them.
type resizer struct {
	mu    sync.Mutex
	sizes chan TerminalSize
}

func newResizer() *resizer { return &resizer{sizes: make(chan TerminalSize, 1)} }

func (r *resizer) set(size TerminalSize) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.sizes:
	default:
	}
	r.sizes <- size
}

// follow hands on the sizes of a session until it ends.
func (r *resizer) follow(ctx context.Context, sizes <-chan TerminalSize) {
	for sizes != nil {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			r.set(size)
		}
	}
}

// feed copies a session's input until either end has enough, and then calls
// ended. It belongs to joined if the session can end its Read.
func (s *Session) feed(ctx context.Context, to *stdinPipe, joined *sync.WaitGroup, ended func()) {
	run := func() {
		defer ended()
		buffer := make([]byte, 32<<10)
		for {
			n, err := s.Stdin.Read(buffer)
			if to.write(ctx, buffer[:n]) != nil || err != nil {
				return
			}
		}
	}
	if _, ok := s.Stdin.(io.Closer); ok {
		joined.Go(run)
		return
	}
	go run()
}

// closeStdin ends the Read of a session's input, where that can be.
func (s *Session) closeStdin() {
	if closer, ok := s.Stdin.(io.Closer); ok {
		_ = closer.Close()
	}
}

package fake

import (
	"context"
	"io"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A StreamServer creates URLs of sessions and serves them; package cri/streams has one. The runtime
// has checked the objects of its requests, but not the requested streams. For each client it calls
// ExecSession, AttachSession or PortForwardSession of the Runtime.
type StreamServer interface {
	// GetExec returns the URL of a session for an exec request. It fails with code InvalidArgument
	// for a request without streams, or with both stderr and a terminal.
	GetExec(request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error)
	// GetAttach is GetExec for an attach request.
	GetAttach(request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error)
	// GetPortForward returns the URL of a session for a port-forward request.
	GetPortForward(request *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error)
}

// Session has the streams of an exec or attach client.
type Session struct {
	// Stdin is the input. nil is empty input. If it is also an io.Closer it is closed at the end of
	// the session, and the session waits for its Read; otherwise a Read may outlive the session.
	Stdin io.Reader
	// Stdout and Stderr receive the output; nil drops it. A Write that blocks also blocks the
	// program, and must return when the session's context ends. If a Write fails, the stream is
	// closed for the program (exec) or skipped from then on (attach). With TTY all output goes to
	// Stdout.
	Stdout, Stderr io.Writer
	// TTY runs a command with a terminal. For an attach it means that the client has a terminal,
	// which changes the effect of the end of Stdin.
	TTY bool
	// Resize delivers the sizes of the terminal. Optional.
	Resize <-chan TerminalSize
}

// TerminalSize is the size of a terminal, in characters.
type TerminalSize struct {
	Width, Height uint16
}

// resizer passes the newest unseen size to a program, as SIGWINCH does. A nil resizer drops sizes.
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

// follow passes on the sizes of a session until it ends.
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

// feed copies a session's input until either side ends, and then calls ended. It adds itself to
// joined if the session can interrupt its Read.
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

// closeStdin interrupts the Read of a session's input, if it is a closer.
func (s *Session) closeStdin() {
	if closer, ok := s.Stdin.(io.Closer); ok {
		_ = closer.Close()
	}
}

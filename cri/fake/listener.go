package fake

import (
	"context"
	"net"

	"github.com/podwright/podwright/internal/memnet"
)

// Listener is a listener in memory, for Runtime.Serve and for the sessions of
// package cri/streams. It lives in a synctest bubble, and any number of goroutines may
// use it.
//
// Others like it may crash a test with the race detector: connections of
// google.golang.org/grpc/test/bufconn set off timers that are due at once, and up to
// Go 1.26 the race detector does not survive two of those at a time in a bubble.
type Listener struct{ memory *memnet.Listener }

var _ net.Listener = (*Listener)(nil)

// Listen returns a listener that is reached with its DialContext only. Each
// direction of a connection buffers 64 KiB.
func Listen() *Listener { return &Listener{memory: memnet.Listen(0)} }

// Accept waits for the next DialContext. After Close its error is net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) { return l.memory.Accept() }

// DialContext connects to the listener: it waits until the connection is accepted,
// the listener is closed (net.ErrClosed), or ctx is done (its error).
func (l *Listener) DialContext(ctx context.Context) (net.Conn, error) {
	return l.memory.DialContext(ctx)
}

// Close ends Accept and DialContext. Connections stay as they are.
func (l *Listener) Close() error { return l.memory.Close() }

// Addr is the same for all listeners.
func (l *Listener) Addr() net.Addr { return l.memory.Addr() }

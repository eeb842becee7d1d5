package fake

import (
	"context"
	"net"

	"github.com/podwright/podwright/internal/memnet"
)

// Listener is a listener in memory, for Runtime.Serve and for the sessions of package cri/streams.
// It can live in a synctest bubble. It is safe for concurrent use.
//
// Similar listeners may crash a test with the race detector: connections of
// google.golang.org/grpc/test/bufconn start timers that are due at once, and up to Go 1.26 the race
// detector crashes on two such timers at a time in a bubble.
type Listener struct{ memory *memnet.Listener }

var _ net.Listener = (*Listener)(nil)

// Listen returns a listener that only its DialContext can reach. Each direction of a connection
// buffers 64 KiB.
func Listen() *Listener { return &Listener{memory: memnet.Listen(0)} }

// Accept waits for the next DialContext. After Close it returns net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) { return l.memory.Accept() }

// DialContext connects to the listener. It waits until the connection is accepted, the listener is
// closed (net.ErrClosed), or ctx is done (its error).
func (l *Listener) DialContext(ctx context.Context) (net.Conn, error) {
	return l.memory.DialContext(ctx)
}

// Close ends Accept and DialContext. Connections stay open.
func (l *Listener) Close() error { return l.memory.Close() }

// Addr returns the same address for all listeners.
func (l *Listener) Addr() net.Addr { return l.memory.Addr() }

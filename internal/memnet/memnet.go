// Package memnet is an in-memory network for tests in synctest bubbles: a listener whose
// connections are buffers.
//
// A connection of google.golang.org/grpc's test/bufconn sets timers that are due at once, on the
// thread that dials. Up to Go 1.26 the race detector has one context per bubble for all of them,
// and crashes the process (SIGSEGV, or "ThreadSanitizer: CHECK failed") when two threads use it
// at the same time. Connections of this package set timers only for deadlines in the future.
package memnet

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

const defaultSize = 64 << 10

// Listener is a net.Listener that accepts only connections of its own DialContext. It is safe
// for concurrent use.
type Listener struct {
	size  int
	calls chan net.Conn
	done  chan struct{}
	close sync.Once
}

var _ net.Listener = (*Listener)(nil)

// Listen returns a listener. size is the buffer of each direction of a connection in bytes: a
// Write blocks while it is full. Default: 64 KiB.
func Listen(size int) *Listener {
	if size <= 0 {
		size = defaultSize
	}
	return &Listener{size: size, calls: make(chan net.Conn), done: make(chan struct{})}
}

// Accept blocks until the next DialContext. After Close it returns net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, opError("accept", net.ErrClosed)
	case conn := <-l.calls:
		return conn, nil
	}
}

// DialContext connects to the listener. It blocks until the connection is accepted, the listener
// is closed (net.ErrClosed), or ctx is done (its error).
func (l *Listener) DialContext(ctx context.Context) (net.Conn, error) {
	there, back := newPipe(l.size), newPipe(l.size)
	select {
	case <-ctx.Done():
		return nil, opError("dial", ctx.Err())
	case <-l.done:
		return nil, opError("dial", net.ErrClosed)
	case l.calls <- &conn{in: there, out: back}:
		return &conn{in: back, out: there}, nil
	}
}

// Close ends Accept and DialContext. Connections stay open.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.done) })
	return nil
}

// Addr returns the same address for all listeners.
func (l *Listener) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "memory" }
func (addr) String() string  { return "memory" }

type conn struct {
	in, out *pipe
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, opError("read", err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, opError("write", err)
}

// Close ends the calls that wait on this end with net.ErrClosed. The peer reads the remaining
// data, then io.EOF, and can no longer write.
func (c *conn) Close() error {
	c.in.closeReader()
	c.out.closeWriter()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return addr{} }
func (c *conn) RemoteAddr() net.Addr { return addr{} }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.reading, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writing, t)
	return nil
}

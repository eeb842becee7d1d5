// Package memnet is a network in memory: a listener whose connections are buffers.
//
// It is for tests in synctest bubbles. A connection of google.golang.org/grpc's
// test/bufconn sets off timers that are due at once, on whatever thread dials. Up
// to Go 1.26 the race detector keeps one context per bubble for all of them, and
// crashes the process (SIGSEGV, or "ThreadSanitizer: CHECK failed") when two
// threads are there at the same time. Connections of this package make a timer for
// a deadline in the future, and for nothing else.
package memnet

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// defaultSize is the buffer of a connection that does not say.
const defaultSize = 64 << 10

// Listener is a net.Listener that is reached with its own DialContext only. It may
// be used by any number of goroutines.
type Listener struct {
	size  int
	calls chan net.Conn
	done  chan struct{}
	close sync.Once
}

var _ net.Listener = (*Listener)(nil)

// Listen returns a listener. size is how many bytes wait to be read in each
// direction of a connection before a Write blocks; zero means 64 KiB.
func Listen(size int) *Listener {
	if size <= 0 {
		size = defaultSize
	}
	return &Listener{size: size, calls: make(chan net.Conn), done: make(chan struct{})}
}

// Accept waits for the next DialContext. After Close its error is net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, opError("accept", net.ErrClosed)
	case conn := <-l.calls:
		return conn, nil
	}
}

// DialContext connects to the listener: it waits until the connection is accepted,
// the listener is closed (net.ErrClosed), or ctx is done (its error).
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

// Close ends Accept and DialContext. Connections stay as they are.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.done) })
	return nil
}

// Addr is the same for all listeners.
func (l *Listener) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "memory" }
func (addr) String() string  { return "memory" }

// conn is one end of a connection.
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

// Close ends what waits on this end with net.ErrClosed. The other end reads what
// was written, then io.EOF, and can write no more.
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

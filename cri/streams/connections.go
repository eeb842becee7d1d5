package streams

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// connections is a listener that tracks its connections, to bound and close them. http.Server does
// not track upgraded connections.
type connections struct {
	net.Listener
	most int
	idle time.Duration // idle limit of a session's writes

	mu   sync.Mutex
	open []*connection // in order of arrival
	over bool
}

func newConnections(listener net.Listener, most int, idle time.Duration) *connections {
	return &connections{Listener: listener, most: most, idle: idle}
}

// Accept waits for a connection.
func (c *connections) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tracked := &connection{closeOnce: closeOnce{Conn: conn}, of: c}
	c.mu.Lock()
	if c.over {
		_ = conn.Close()
	}
	c.open = append(c.open, tracked)
	var surplus *connection
	if len(c.open) > c.most {
		// The new connection has no session, so there is a candidate. An older one may start a
		// session meanwhile and is closed nevertheless: its client retries.
		surplus = c.open[slices.IndexFunc(c.open, func(o *connection) bool { return !o.hijacked() })]
	}
	c.mu.Unlock()
	if surplus != nil {
		_ = surplus.Close()
	}
	return tracked, nil
}

func (c *connections) cut() {
	c.mu.Lock()
	c.over = true
	open := slices.Clone(c.open)
	c.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close()
	}
}

// closeOnce is a connection that may be closed repeatedly. The SPDY implementation waits a second
// if its connection was already closed.
type closeOnce struct {
	net.Conn
	once sync.Once
}

// Close closes the connection, the first time.
func (c *closeOnce) Close() error {
	var err error
	c.once.Do(func() { err = c.Conn.Close() })
	return err
}

// connection cancels its session when the connection is lost. Only reading detects that.
type connection struct {
	closeOnce
	of *connections

	mu    sync.Mutex
	lost  context.CancelCauseFunc
	taken bool
	until time.Time // the deadline for reading
}

// errConnectionLost is the cause of the end of a lost connection's session.
var errConnectionLost = errors.New("the client's connection was lost")

// Read reads, and cancels the session when the connection has ended.
func (c *connection) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err == nil || n > 0 {
			return n, err
		}
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			c.end()
			return n, err
		}
		if !c.early() {
			return n, err
		}
	}
}

// Write writes. A session's Write fails if the client reads no data for the idle time, and ends
// the session: with SPDY, one blocked write blocks all streams.
func (c *connection) Write(p []byte) (int, error) {
	if !c.hijacked() {
		return c.Conn.Write(p)
	}
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.of.idle)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if err != nil {
		_ = c.Close()
	}
	return n, err
}

// early reports whether a Read failed before the current deadline, and sets that deadline again.
// Connections with timer-based deadlines can have this race when an http.Server hands them over.
func (c *connection) early() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.until.IsZero() && !time.Now().Before(c.until) {
		return false
	}
	return c.Conn.SetReadDeadline(c.until) == nil
}

// SetDeadline sets the deadlines for reading and writing.
func (c *connection) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the deadline for reading.
func (c *connection) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	return c.Conn.SetReadDeadline(t)
}

// Close closes the connection and ends its session.
func (c *connection) Close() error {
	c.end()
	c.of.mu.Lock()
	c.of.open = slices.DeleteFunc(c.of.open, func(o *connection) bool { return o == c })
	c.of.mu.Unlock()
	return c.closeOnce.Close()
}

func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		c.lost(errConnectionLost)
	}
}

type connKey struct{}

// connContext returns the context of a connection's requests, which is cancelled when the
// connection is lost.
func connContext(ctx context.Context, conn net.Conn) context.Context {
	tracked, ok := conn.(*connection)
	if !ok {
		return ctx
	}
	ctx, lost := context.WithCancelCause(ctx)
	tracked.mu.Lock()
	defer tracked.mu.Unlock()
	tracked.lost = lost
	return context.WithValue(ctx, connKey{}, tracked)
}

func connOf(ctx context.Context) *connection {
	conn, _ := ctx.Value(connKey{}).(*connection)
	return conn
}

// connState counts served connections in serving, and marks hijacked ones, which the session's
// handler then counts out. Connections are counted before http.Server.Serve returns, so that Run
// can wait for them.
func connState(serving *sync.WaitGroup) func(net.Conn, http.ConnState) {
	return func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			serving.Add(1)
		case http.StateClosed:
			serving.Done()
		case http.StateHijacked:
			if tracked, ok := conn.(*connection); ok {
				tracked.mu.Lock()
				defer tracked.mu.Unlock()
				tracked.taken = true
			}
		}
	}
}

func (c *connection) hijacked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

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

// connections is a listener that knows its connections, so that all can be cut, and
// none are too many: an http.Server forgets those that were upgraded.
type connections struct {
	net.Listener
	most int
	idle time.Duration // how long a session may go without being read

	mu   sync.Mutex
	open []*connection // in the order in which they came
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
		// The new one has no session. The others may get one meanwhile, and be cut all
		// the same: their clients try again.
		surplus = c.open[slices.IndexFunc(c.open, func(o *connection) bool { return !o.hijacked() })]
	}
	c.mu.Unlock()
	if surplus != nil {
		_ = surplus.Close()
	}
	return tracked, nil
}

// cut closes every connection.
func (c *connections) cut() {
	c.mu.Lock()
	c.over = true
	open := slices.Clone(c.open)
	c.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close()
	}
}

// closeOnce is a connection that may be closed again: the SPDY implementation
// lingers for a second when it finds its connection closed by someone else.
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

// connection tells its session when it is gone. Only reading shows that.
type connection struct {
	closeOnce
	of *connections

	mu    sync.Mutex
	lost  context.CancelCauseFunc
	taken bool
	until time.Time // the deadline for reading
}

// errGone is why the session of a lost connection ends.
var errGone = errors.New("the client's connection is gone")

// Read reads, and notes when there is no more to come.
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

// Write writes. That of a session fails if its client reads nothing for so long that
// the connection counts as idle, and so does the session: what goes over SPDY waits for
// the one write.
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

// early tells whether the deadline that a Read has met is one that had been
// taken back, and takes it back again. Connections that keep their deadlines with
// timers may fall for that when an http.Server hands them over.
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
		c.lost(errGone)
	}
}

type connKey struct{}

// connContext is the context of a connection's requests.
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

// connState counts the connections that are served, and notes when a session has
// taken one over, whose handler then counts it out. They are counted before the
// http.Server's Serve returns, so that whoever waits for that can wait for them.
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

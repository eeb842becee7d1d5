package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podwright/podwright/examples/kubelet/server/auth"
	"github.com/podwright/podwright/internal/run"
)

type limits struct {
	// header bounds a handshake, and the header of a request. read and write bound a whole request
	// and a whole response. idle bounds the time between two requests of a connection.
	header, read, write, idle time.Duration
	// connections is the maximum number of connections. If authenticated is positive, it applies to
	// those without an authenticated request only, and authenticated to all others.
	connections, authenticated int
	// received bounds the bytes of unfinished requests of connections without an authenticated
	// request, which may all be in memory.
	received int64
}

const (
	maxHeader = 1 << 20
	// maxConcurrent is the maximum number of concurrent requests of an HTTP/2 connection. The
	// server closes a connection that resets and restarts more requests than that.
	maxConcurrent = 100
	headerTimeout = 30 * time.Second
	drain         = time.Second
	// join bounds the wait for requests after the end of their contexts.
	join = 10 * time.Second
	// quick bounds the sending of a response from memory.
	quick = 30 * time.Second
	// long bounds an authorized request to the kubelet API, and its response. strange bounds all
	// other requests to it; it is longer than the reviews of package auth, whose failure is
	// reported. strangeHeader bounds their headers.
	long, strange, strangeHeader = 4 * time.Hour, 15 * time.Second, 10 * time.Second
	// maxConnections is the maximum number of connections of Serve. ServeAPI has maxStrangers
	// connections before authentication and maxAuthenticated others; see connections.
	maxConnections, maxStrangers, maxAuthenticated = 128, 1024, 2048
	// maxReceived bounds the bytes of unfinished requests before authentication.
	maxReceived = 32 << 20
	// receivedStep is the number of bytes of a connection after which the sum is checked.
	receivedStep = 64 << 10
)

// Serve serves handler on the listener until ctx is done, and waits for its requests. It closes
// connections that do not read a response within 30 s or are idle for 30 s. At most 128 connections
// are open. For a new one, Serve closes the longest idle one or, if all are busy, the one with the
// longest request. The handler's responses must therefore be short. Unfinished requests have at most
// 32 MiB; beyond that, Serve closes the connection with the largest.
func Serve(ctx context.Context, l net.Listener, handler http.Handler, log *slog.Logger) error {
	return serve(ctx, l, nil, handler, log, limits{header: headerTimeout, read: quick, write: quick, idle: quick, connections: maxConnections, received: maxReceived})
}

// ServeAPI serves the kubelet API over TLS until ctx is done, and waits for its requests and
// sessions. A request has 15 s until it reaches the handler of NewAPI, which the caller wraps in
// authentication. From there it may take 4 h, as with upstream kubelets. A connection may be idle
// for 90 s.
//
// At most 1024 connections are open that have made no authenticated request. For a new one,
// ServeAPI closes the oldest of the client address with the most of them. So clients without
// credentials cannot lock out others. Their unfinished requests have at most 32 MiB; beyond that,
// ServeAPI closes the connection with the largest. Further 2048 connections, not counting sessions, are for
// authenticated clients, whose requests reach NewAPI with a user (auth.WithUser) other than
// auth.Anonymous. For a new one, ServeAPI closes the longest idle one; if all are busy, the request
// gets status 429.
func ServeAPI(ctx context.Context, l net.Listener, secure *tls.Config, handler http.Handler, log *slog.Logger) error {
	return serve(ctx, l, secure, handler, log, limits{
		header: strangeHeader, read: strange, write: strange, idle: 90 * time.Second, connections: maxStrangers, authenticated: maxAuthenticated, received: maxReceived,
	})
}

// admit extends the time limits of an authorized request, and moves the connection of an
// authenticated client to the connections of such clients.
func admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, ok := r.Context().Value(connKey{}).(from)
		if !ok { // not served by ServeAPI
			next.ServeHTTP(w, r)
			return
		}
		if user, ok := auth.UserFrom(r.Context()); ok && user.Username != auth.Anonymous && !from.all.authenticated(from.conn) {
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("too many connections with a request (limit %d), try again later", from.all.limits.authenticated), http.StatusTooManyRequests)
			return
		}
		c, end := http.NewResponseController(w), time.Now().Add(long)
		_ = errors.Join(c.SetReadDeadline(end), c.SetWriteDeadline(end)) // fail only without a connection
		next.ServeHTTP(w, r)
	})
}

// from is the connection of a request. It is in the request's context.
type from struct {
	all  *connections
	conn net.Conn
}

type connKey struct{}

func serve(ctx context.Context, l net.Listener, secure *tls.Config, handler http.Handler, log *slog.Logger, limits limits) error {
	conns := &connections{limits: limits, open: map[net.Conn]connection{}}
	l = meteredListener{l, conns}
	var requests run.Group
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer requests.Begin(r.Method + " " + r.URL.Path)()
			handler.ServeHTTP(w, r)
		}),
		TLSConfig:         secure,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       conns.context,
		ReadHeaderTimeout: limits.header,
		ReadTimeout:       limits.read,
		WriteTimeout:      limits.write,
		IdleTimeout:       limits.idle,
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxConcurrent},
		ConnState:         conns.changed,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	defer srv.Close()
	served := make(chan error, 1)
	go func() {
		if secure == nil {
			served <- srv.Serve(l)
		} else {
			served <- srv.ServeTLS(l, "", "")
		}
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := srv.Shutdown(deadline)
	if err != nil {
		err = srv.Close()
	}
	if ended := <-served; err == nil && !errors.Is(ended, http.ErrServerClosed) {
		err = ended
	}
	if running := requests.Wait(join); len(running) > 0 {
		err = errors.Join(err, fmt.Errorf("requests still running %s after their contexts were cancelled: %s", join, strings.Join(running, ", ")))
	}
	return err
}

// connections closes a connection if there are too many. If the listener stopped accepting instead,
// idle clients could block all others.
type connections struct {
	limits limits
	mu     sync.Mutex
	open   map[net.Conn]connection
}

// connection is the state of a connection.
type connection struct {
	active, authenticated bool
	opened, since         time.Time // since is the time of the last change of active
}

func (c *connections) context(ctx context.Context, conn net.Conn) context.Context {
	if c.limits.authenticated == 0 {
		return ctx
	}
	return context.WithValue(ctx, connKey{}, from{c, conn})
}

func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	is, known := c.open[conn]
	switch {
	case state == http.StateClosed || state == http.StateHijacked:
		delete(c.open, conn)
	case state == http.StateNew:
		c.open[conn] = connection{opened: now, since: now}
		if c.count(false) > c.limits.connections {
			c.makeRoom(conn)
		}
	case known: // not closed to make room
		if state == http.StateIdle {
			meterOf(conn).received.Store(0) // the requests have ended
		}
		is.active, is.since = state == http.StateActive, now
		c.open[conn] = is
	}
}

// authenticated records that a connection has made an authenticated request. It returns false if
// the connection has to end, because too many others are busy.
func (c *connections) authenticated(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	is, known := c.open[conn]
	if !known || is.authenticated { // unknown: already closed to make room
		return known
	}
	if c.count(true) >= c.limits.authenticated {
		idle, ok := c.first(func(other net.Conn) bool { return c.open[other].authenticated && !c.open[other].active }, connection.before)
		if !ok {
			return false
		}
		c.close(idle)
	}
	is.authenticated = true
	c.open[conn] = is
	return true
}

func (c *connections) count(authenticated bool) (n int) {
	for _, is := range c.open {
		if is.authenticated == authenticated {
			n++
		}
	}
	return n
}

// makeRoom closes a connection without an authenticated request. The newest one stays: an attack
// would otherwise keep all others out.
func (c *connections) makeRoom(newest net.Conn) {
	if c.limits.authenticated == 0 {
		if longest, ok := c.first(func(conn net.Conn) bool { return conn != newest }, connection.before); ok {
			c.close(longest)
		}
		return
	}
	sources := map[string]int{}
	for conn, is := range c.open {
		if !is.authenticated {
			sources[source(conn)]++
		}
	}
	most := slices.Max(slices.Collect(maps.Values(sources)))
	oldest, ok := c.first(func(conn net.Conn) bool {
		return conn != newest && !c.open[conn].authenticated && sources[source(conn)] == most
	}, func(a, b connection) bool { return a.opened.Before(b.opened) })
	if ok {
		c.close(oldest)
	}
}

// first returns the first connection in an order, of the selected ones.
func (c *connections) first(selected func(net.Conn) bool, before func(a, b connection) bool) (first net.Conn, ok bool) {
	for conn, is := range c.open {
		if selected(conn) && (!ok || before(is, c.open[first])) {
			first, ok = conn, true
		}
	}
	return first, ok
}

// close closes a connection without the closing message of TLS, which a client could block.
func (c *connections) close(conn net.Conn) {
	delete(c.open, conn)
	_ = meterOf(conn).Close()
}

// shed closes the connection with the largest unfinished request, if the sum exceeds the limit.
func (c *connections) shed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum, most int64
	var largest net.Conn
	for conn, is := range c.open {
		if is.authenticated {
			continue
		}
		n := meterOf(conn).received.Load()
		sum += n
		if n > most {
			largest, most = conn, n
		}
	}
	if sum > c.limits.received {
		c.close(largest)
	}
}

// meteredListener counts the bytes of its connections.
type meteredListener struct {
	net.Listener
	all *connections
}

// Accept implements net.Listener.
func (l meteredListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &metered{Conn: conn, all: l.all}, nil
}

// metered is a connection without TLS that counts the received bytes since the last request.
type metered struct {
	net.Conn
	all      *connections
	received atomic.Int64
}

// Read implements net.Conn.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if sum := m.received.Add(int64(n)); sum/receivedStep != (sum-int64(n))/receivedStep {
		m.all.shed()
	}
	return n, err
}

// meterOf returns the metered connection below TLS.
func meterOf(conn net.Conn) *metered {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	return conn.(*metered)
}

// source returns the address of the client without its port.
func source(conn net.Conn) string {
	address := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// before orders idle connections before busy ones, and then by the time of the last change.
func (c connection) before(other connection) bool {
	if c.active != other.active {
		return other.active
	}
	return c.since.Before(other.since)
}

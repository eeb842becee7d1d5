package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// limits are what a server's clients have to keep to.
type limits struct {
	// read and write bound a whole request and a whole answer, idle a connection between
	// two requests.
	read, write, idle time.Duration
	connections       int
	// keepBusy closes the newest connection instead of one with a request when there are
	// too many.
	keepBusy bool
}

const (
	maxHeader = 1 << 20
	// maxConcurrent is how many requests a connection of HTTP/2 has at a time; who takes
	// back and sends anew more than the server has begun with is cut off.
	maxConcurrent = 100
	headerTimeout = 30 * time.Second
	drain         = time.Second
	// join is how long requests may take to end once their contexts have.
	join = 10 * time.Second
	// quick is how long a client may take to read an answer that is made from memory.
	quick = 30 * time.Second
	// maxConnections is how many clients Serve has at most, maxAPIConnections how many
	// ServeAPI; see connections.
	maxConnections, maxAPIConnections = 128, 2048
)

// Serve serves handler on the listener until ctx is done, and joins. An answer that is
// not read within 30 s is given up, as is a connection that says nothing for so long.
// At most 128 connections are open: for one more, the one that has been idle longest is
// closed, or the one whose request has taken longest if none is idle. So the handler's
// answers have to be short ones.
func Serve(ctx context.Context, l net.Listener, handler http.Handler, log *slog.Logger) error {
	return serve(ctx, l, nil, handler, log, limits{read: quick, write: quick, idle: quick, connections: maxConnections})
}

// ServeAPI serves the kubelet API over TLS until ctx is done, and joins what it serves,
// also sessions. A request may take 4 h, as with upstream kubelets, and a connection may be
// idle for 90 s. At most 2048 are open besides those of sessions: for one more, the one that
// has been idle longest is closed, or the new one if all have requests.
func ServeAPI(ctx context.Context, l net.Listener, secure *tls.Config, handler http.Handler, log *slog.Logger) error {
	const long = 4 * time.Hour
	return serve(ctx, l, secure, handler, log, limits{read: long, write: long, idle: 90 * time.Second, connections: maxAPIConnections, keepBusy: true})
}

func serve(ctx context.Context, l net.Listener, secure *tls.Config, handler http.Handler, log *slog.Logger, limits limits) error {
	conns := &connections{limits: limits, open: map[net.Conn]connection{}}
	var requests run.Group
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer requests.Begin(r.Method + " " + r.URL.Path)()
			handler.ServeHTTP(w, r)
		}),
		TLSConfig:         secure,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTimeout,
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
		err = errors.Join(err, fmt.Errorf("requests that have not ended %s after their contexts: %s", join, strings.Join(running, ", ")))
	}
	return err
}

// connections closes one when there are too many. A listener that does not accept while
// there are would let clients that do nothing shut out all others.
type connections struct {
	limits limits
	mu     sync.Mutex
	open   map[net.Conn]connection
}

// connection is since when one has been idle, or at its request.
type connection struct {
	active bool
	since  time.Time
}

// changed is the http.Server's ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := connection{active: state == http.StateActive, since: time.Now()}
	_, known := c.open[conn]
	switch {
	case state == http.StateClosed || state == http.StateHijacked:
		delete(c.open, conn)
	case state == http.StateNew:
		c.open[conn] = now
		if len(c.open) > c.limits.connections {
			c.closeOne(conn)
		}
	case known: // and not closed to make room
		c.open[conn] = now
	}
}

func (c *connections) closeOne(newest net.Conn) {
	worst := newest
	for conn, is := range c.open {
		if conn != newest && (worst == newest || is.before(c.open[worst])) {
			worst = conn
		}
	}
	if c.limits.keepBusy && c.open[worst].active {
		worst = newest
	}
	delete(c.open, worst)
	_ = worst.Close()
}

// before tells which of two connections is closed first.
func (c connection) before(other connection) bool {
	if c.active != other.active {
		return other.active
	}
	return c.since.Before(other.since)
}

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

type limits struct {
	// read and write bound a whole request and a whole response. idle bounds the time between two
	// requests of a connection.
	read, write, idle time.Duration
	connections       int
	// keepBusy closes the newest connection, and not one with a request, if there are too many.
	keepBusy bool
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
	// maxConnections is the maximum number of connections of Serve, maxAPIConnections of ServeAPI;
	// see connections.
	maxConnections, maxAPIConnections = 128, 2048
)

// Serve serves handler on the listener until ctx is done, and waits for its requests. It closes
// connections that do not read a response within 30 s or are idle for 30 s. At most 128 connections
// are open. For a new one, Serve closes the longest idle one or, if all are busy, the one with the
// longest request. The handler's responses must therefore be short.
func Serve(ctx context.Context, l net.Listener, handler http.Handler, log *slog.Logger) error {
	return serve(ctx, l, nil, handler, log, limits{read: quick, write: quick, idle: quick, connections: maxConnections})
}

// ServeAPI serves the kubelet API over TLS until ctx is done, and waits for its requests and
// sessions. A request may take 4 h, as with upstream kubelets. A connection may be idle for 90 s.
// At most 2048 connections are open, not counting sessions. For a new one, ServeAPI closes the
// longest idle one or, if all are busy, the new one.
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

// connection is the state of a connection and its start.
type connection struct {
	active bool
	since  time.Time
}

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
	case known: // not closed to make room
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

func (c connection) before(other connection) bool {
	if c.active != other.active {
		return other.active
	}
	return c.since.Before(other.since)
}

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	maxHeader    = 1 << 20
	readTimeout  = 30 * time.Second
	writeTimeout = 30 * time.Second // of a whole answer
	idleTimeout  = 30 * time.Second
	drain        = time.Second
	// maxConnections is how many clients there are at most; see connections.
	maxConnections = 128
)

// Serve serves handler on the listener until ctx is done, and joins. An answer that is
// not read within 30 s is given up, as is a connection that says nothing for so long.
// At most 128 connections are open: for one more, the one that has been idle longest is
// closed, or the one whose request has taken longest if none is idle. So the handler's
// answers have to be short ones.
func Serve(ctx context.Context, l net.Listener, handler http.Handler, log *slog.Logger) error {
	conns := &connections{open: map[net.Conn]connection{}}
	srv := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnState:         conns.changed,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	defer srv.Close()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := srv.Shutdown(deadline); err != nil {
		err = srv.Close()
		<-served
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// connections closes one when there are too many. A listener that does not accept while
// there are would let clients that do nothing shut out all others.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]connection
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
		if len(c.open) >= maxConnections {
			c.closeOne()
		}
		c.open[conn] = now
	case known: // and not closed to make room
		c.open[conn] = now
	}
}

func (c *connections) closeOne() {
	var worst net.Conn
	for conn, is := range c.open {
		if worst == nil || is.before(c.open[worst]) {
			worst = conn
		}
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

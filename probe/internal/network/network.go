// Package network is what the probers that connect to something have in common:
// connections that are closed when the probe is, and what a failure to connect
// means.
package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/podwright/podwright/probe"
)

// DefaultTimeout is the time of a probe that has none: timeoutSeconds' default.
const DefaultTimeout = time.Second

// lingerSeconds is how long the end of a connection waits for what was sent last.
const lingerSeconds = 1

// DialFunc connects to an address.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Bound limits ctx to the time of one execution.
func Bound(ctx context.Context, t probe.Target) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, Timeout(t))
}

// Timeout is the time of one execution.
func Timeout(t probe.Target) time.Duration {
	if t.Timeout <= 0 {
		return DefaultTimeout
	}
	return t.Timeout
}

// Host is where a probe goes: the host that its handler names, else the pod.
// IPv6 addresses come without brackets.
func Host(t probe.Target, named string) (string, error) {
	host := named
	if host == "" {
		host = t.PodIP
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, _ = strings.CutSuffix(inner, "]")
		if ip, err := netip.ParseAddr(inner); err == nil && ip.Is6() {
			host = inner
		}
	}
	if host == "" {
		return "", errors.New("the pod has no address yet")
	}
	return host, nil
}

// Conns are the connections of one execution. Zero is ready for use.
type Conns struct {
	// Connect replaces the network; nil means a direct connection.
	Connect DialFunc
	// Patience is how long a connection's end waits for the other side to end it
	// first.
	Patience time.Duration

	mu     sync.Mutex
	conns  []*conn
	dialed bool
	failed error
	closed bool
}

// Dial connects. It never uses a proxy.
func (c *Conns) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	connect := c.Connect
	if connect == nil {
		// A probe is over before keep-alive messages would begin.
		connect = (&net.Dialer{KeepAlive: -1}).DialContext
	}
	nc, err := connect(ctx, network, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialed, c.failed = true, err
	if err != nil {
		return nil, err
	}
	if c.closed {
		_ = nc.Close()
		return nil, net.ErrClosed
	}
	if l, ok := nc.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(lingerSeconds) // fails for a connection that is over already
	}
	wrapped := &conn{Conn: nc, patience: c.Patience}
	c.conns = append(c.conns, wrapped)
	return wrapped, nil
}

// Dialed tells whether anything tried to connect, and how the last attempt failed.
func (c *Conns) Dialed() (tried bool, failure error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dialed, c.failed
}

// Close closes all connections, and returns when they are. There are none after.
func (c *Conns) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, nc := range c.conns {
		_ = nc.Close()
	}
	c.conns, c.closed = nil, true
}

// conn is closed once. Whoever closes it again waits for that.
type conn struct {
	net.Conn
	patience time.Duration

	once sync.Once
	err  error
}

// Close ends the connection. The side that does so first keeps a trace of it for
// a minute (TIME_WAIT). With patience that is the server, if it means to: its
// traces are in the pod's network and in nobody's way.
func (c *conn) Close() error {
	c.once.Do(func() {
		if c.patience > 0 {
			_ = c.SetReadDeadline(time.Now().Add(c.patience))
			_, _ = c.Read(make([]byte, 1))
		}
		c.err = c.Conn.Close()
	})
	return c.err
}

// Failure says what err means that ended a conversation under own, the context of
// this execution, which descends from caller. That a caller gives up, and that this
// machine lacks what it takes to connect, say nothing about the container: these
// are errors. Everything else is a failure, in the words of text, or of err if
// text is "".
func Failure(caller, own context.Context, t probe.Target, err error, text string) (probe.Result, error) {
	switch {
	case errors.Is(caller.Err(), context.Canceled):
		return probe.Result{}, fmt.Errorf("the probe was given up: %w", context.Cause(caller))
	case own.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Failed("no answer within %v", Timeout(t)), nil
	case isShortage(err):
		return probe.Result{}, fmt.Errorf("out of resources of the node: %w", err)
	case text == "":
		text = err.Error()
	}
	return Failed("%s", text), nil
}

// Failed is a failure.
func Failed(format string, args ...any) probe.Result {
	return probe.Result{Verdict: probe.Failure, Output: fmt.Sprintf(format, args...)}
}

// isShortage tells whether err says that the node has no more sockets, files,
// memory, or local ports.
func isShortage(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

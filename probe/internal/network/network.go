// Package network has the common parts of the probers that use connections: connections that are
// closed at the end of the probe, and the verdicts of connection errors.
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

// DefaultTimeout is the default of timeoutSeconds.
const DefaultTimeout = time.Second

// lingerSeconds bounds the wait of Close for unsent data.
const lingerSeconds = 1

// DialFunc connects to an address.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Bound returns ctx with the timeout of one execution.
func Bound(ctx context.Context, t probe.Target) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, Timeout(t))
}

// Timeout returns the timeout of one execution.
func Timeout(t probe.Target) time.Duration {
	if t.Timeout <= 0 {
		return DefaultTimeout
	}
	return t.Timeout
}

// Host returns the host of a probe: the handler's, by default the pod's address. IPv6 addresses
// have no brackets.
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

// Conns are the connections of one execution. The zero value is ready to use. It is safe for
// concurrent use.
type Conns struct {
	// Connect replaces the network. Default: a direct connection.
	Connect DialFunc
	// Patience bounds the wait of Close for the peer to close a connection first.
	Patience time.Duration

	mu     sync.Mutex
	conns  []*conn
	dialed bool
	failed error
	closed bool
}

// Dial connects, never through a proxy.
func (c *Conns) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	connect := c.Connect
	if connect == nil {
		// A probe ends before the first keep-alive message.
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
		_ = l.SetLinger(lingerSeconds) // fails for a connection that has already ended
	}
	wrapped := &conn{Conn: nc, patience: c.Patience}
	c.conns = append(c.conns, wrapped)
	return wrapped, nil
}

// Dialed reports whether a connection was tried, and returns the error of the last attempt.
func (c *Conns) Dialed() (tried bool, failure error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dialed, c.failed
}

// Close closes all connections and waits for that. Later connections are closed at once.
func (c *Conns) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, nc := range c.conns {
		_ = nc.Close()
	}
	c.conns, c.closed = nil, true
}

// conn is closed only once. Further calls of Close wait for the first.
type conn struct {
	net.Conn
	patience time.Duration

	once sync.Once
	err  error
}

// Close closes the connection. The side that closes first keeps the socket in TIME_WAIT for a
// minute. With patience that is the server, if it closes the connection: its sockets are in the
// pod's network, where they do not matter.
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

// Failure returns the result of an exchange that ended with err. own is the context of this
// execution and descends from caller. A cancelled caller and a shortage on this node are errors,
// because they are no verdict about the container. Everything else is a Failure with the output
// text, or err if text is "".
func Failure(caller, own context.Context, err error, text, late string) (probe.Result, error) {
	switch {
	case errors.Is(caller.Err(), context.Canceled):
		return probe.Result{}, fmt.Errorf("the probe was cancelled: %w", context.Cause(caller))
	case own.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return Failed("%s", late), nil
	case isShortage(err):
		return probe.Result{}, fmt.Errorf("out of resources of the node: %w", err)
	case text == "":
		text = err.Error()
	}
	return Failed("%s", text), nil
}

// Failed returns a Failure.
func Failed(format string, args ...any) probe.Result {
	return probe.Result{Verdict: probe.Failure, Output: fmt.Sprintf(format, args...)}
}

// isShortage reports whether the node has no free sockets, files, memory, or local ports.
func isShortage(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

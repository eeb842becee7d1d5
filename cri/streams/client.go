package streams

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/podwright/podwright/cri/fake"
)

// A Protocol is how a session goes over its connection.
type Protocol int

const (
	// SPDY is what every runtime serves, and what kubectl spoke first. It can
	// end standard input without ending the session.
	SPDY Protocol = iota
	// WebSocket is the remotecommand protocol v4.channel.k8s.io, or v5 where
	// the server has it. With v4 the end of standard input cannot be told: a
	// command that reads to the end waits for ever.
	WebSocket
)

// Client opens the sessions whose URLs a runtime's Exec, Attach and PortForward
// have returned. It is what an API server is in a cluster, for tests and small
// tools. The zero value speaks SPDY over TCP. Safe for concurrent use.
type Client struct {
	// Dial connects to the host and port of a URL; network is always "tcp".
	// It is how a session comes into a bubble, over a connection in memory.
	// nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Protocol is SPDY or WebSocket. Default SPDY.
	Protocol Protocol
	// Header is sent with each request, such as an Authorization. It is not changed.
	Header http.Header
	// TLS is for URLs with https. nil: the defaults of crypto/tls.
	TLS *tls.Config
}

// Size is the size of a terminal, in characters.
type Size = fake.TerminalSize

// Session is the client's end of a command's streams. Stdin, Stdout and Stderr
// must be set exactly where the request for the URL asked for them, and TTY must
// be what it said; else a server waits for a stream that never comes, or fails.
// Stdin is read until its end, which ends the command's standard input. When it
// is no io.Closer, a Read that blocks outlives the session. An error of Stdout or
// Stderr does not end the session; it is returned at its end. Resize may be
// closed.
type Session = fake.Session

// Exec sees a command through whose URL the runtime's Exec has returned, and
// returns its exit code. The error is a *StatusError when the server reports
// that the command could not be run, ErrLost when the connection broke, and
// wraps ctx's error when that ended the session.
func (c *Client) Exec(ctx context.Context, url string, s Session) (exitCode int, err error) {
	code, err := c.session(ctx, url, s)
	if err != nil {
		return code, fmt.Errorf("exec session: %w", err)
	}
	return code, nil
}

// Attach connects to the streams of a running container, until the container
// exits or ctx ends, which leaves the container as it is. Errors are as with Exec.
func (c *Client) Attach(ctx context.Context, url string, s Session) error {
	if _, err := c.session(ctx, url, s); err != nil {
		return fmt.Errorf("attach session: %w", err)
	}
	return nil
}

func (c *Client) session(ctx context.Context, rawURL string, s Session) (int, error) {
	if s.Stdin == nil && s.Stdout == nil && s.Stderr == nil {
		return 0, errors.New("none of Stdin, Stdout and Stderr is set")
	}
	if s.TTY && s.Stderr != nil {
		return 0, errors.New("a terminal has no Stderr")
	}
	conn, target, err := c.dial(ctx, rawURL)
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	open := openSPDY
	if c.Protocol == WebSocket {
		open = openWebSocket
	}
	channels, err := open(conn, target, c.Header, s)
	if err != nil {
		return 0, because(ctx, err)
	}
	code, err := channels.run(s)
	return code, because(ctx, err)
}

// because names the end of ctx as the cause of an error that came with it.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}

// dial connects to the host of a URL.
func (c *Client) dial(ctx context.Context, rawURL string) (net.Conn, *url.URL, error) {
	target, err := url.Parse(rawURL)
	if err != nil {
		return nil, nil, err
	}
	port := target.Port()
	switch {
	case target.Scheme != "http" && target.Scheme != "https":
		return nil, nil, fmt.Errorf("URL %q is neither http nor https", rawURL)
	case port == "" && target.Scheme == "https":
		port = "443"
	case port == "":
		port = "80"
	}
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, "tcp", net.JoinHostPort(target.Hostname(), port))
	if err != nil {
		return nil, nil, err
	}
	if target.Scheme == "https" {
		if conn, err = c.secure(ctx, conn, target.Hostname()); err != nil {
			return nil, nil, err
		}
	}
	return &closeOnce{Conn: conn}, target, nil
}

func (c *Client) secure(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	config := c.TLS.Clone()
	if config == nil {
		config = &tls.Config{}
	}
	if config.ServerName == "" {
		config.ServerName = host
	}
	config.NextProtos = []string{"http/1.1"} // HTTP/2 has no upgrades
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

// refused is what a server that does not upgrade the connection has said.
func refused(response *http.Response) error {
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxStatus))
	reason := strings.ReplaceAll(http.StatusText(response.StatusCode), " ", "")
	return &StatusError{Code: response.StatusCode, Reason: reason, Message: oneLine(text)}
}

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

// A Protocol is the transport of a session.
type Protocol int

const (
	// SPDY is supported by every runtime, and is kubectl's older protocol. It can end standard
	// input without ending the session.
	SPDY Protocol = iota
	// WebSocket is the remotecommand protocol v4.channel.k8s.io, or v5 if the server supports it.
	// v4 cannot send the end of standard input: a command that reads to the end blocks.
	WebSocket
)

// Client opens the sessions behind the URLs from a runtime's Exec, Attach and PortForward. It
// takes the part of an API server in tests and small tools. The zero value uses SPDY over TCP. It
// is safe for concurrent use.
type Client struct {
	// Dial connects to the host and port of a URL; network is always "tcp". With it a session can
	// run in a bubble, over an in-memory connection. Nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Protocol is SPDY or WebSocket. Default: SPDY.
	Protocol Protocol
	// Header is sent with each request, for example an Authorization. It is not changed.
	Header http.Header
	// TLS is used for https URLs. Nil: the defaults of crypto/tls.
	TLS *tls.Config
}

// Size is the size of a terminal, in characters.
type Size = fake.TerminalSize

// Session is the client's side of a command's streams. Stdin, Stdout and Stderr must be set
// exactly if the request for the URL selected them, and TTY must be equal to the request's;
// otherwise a server waits for a missing stream or fails. Stdin is read to its end, which ends the
// command's standard input. If it is no io.Closer, a blocked Read outlives the session. An error
// of Stdout or Stderr does not end the session; it is returned at the end. Resize may be closed.
type Session = fake.Session

// Exec runs the session of a URL from the runtime's Exec, and returns the command's exit code. The
// error is a *StatusError if the server reports that the command could not run, ErrLost if the
// connection broke, and wraps ctx's error if ctx ended the session.
func (c *Client) Exec(ctx context.Context, url string, s Session) (exitCode int, err error) {
	code, err := c.session(ctx, url, s)
	if err != nil {
		return code, fmt.Errorf("exec session: %w", err)
	}
	return code, nil
}

// Attach connects to the streams of a running container until the container exits or ctx ends,
// which does not affect the container. Errors are as in Exec.
func (c *Client) Attach(ctx context.Context, url string, s Session) error {
	if _, err := c.session(ctx, url, s); err != nil {
		return fmt.Errorf("attach session: %w", err)
	}
	return nil
}

func (c *Client) session(ctx context.Context, rawURL string, s Session) (int, error) {
	if s.Stdin == nil && s.Stdout == nil && s.Stderr == nil {
		return 0, errors.New("a session needs Stdin, Stdout or Stderr")
	}
	if s.TTY && s.Stderr != nil {
		return 0, errors.New("a session with a terminal has no Stderr")
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

// because adds the cause of ctx's end to an error.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}

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

func refused(response *http.Response) error {
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxStatus))
	reason := strings.ReplaceAll(http.StatusText(response.StatusCode), " ", "")
	return &StatusError{Code: response.StatusCode, Reason: reason, Message: oneLine(text)}
}

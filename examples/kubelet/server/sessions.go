package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// limiter bounds how many requests are served at a time.
type limiter chan struct{}

// around answers 429 while there are too many.
func (l limiter) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case l <- struct{}{}:
			defer func() { <-l }()
			next.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many sessions and readers of logs; try again later", http.StatusTooManyRequests)
		}
	})
}

// opener asks the runtime for the session that a request wants.
type opener func(ctx context.Context, t Target, r *http.Request) (*url.URL, error)

func openExec(p Pods) opener {
	return func(ctx context.Context, t Target, r *http.Request) (*url.URL, error) {
		s, err := streams(r.URL.Query())
		if err != nil {
			return nil, err
		}
		if len(s.Command) == 0 {
			return nil, bad("command: exec needs one")
		}
		return p.Exec(ctx, t, s)
	}
}

func openAttach(p Pods) opener {
	return func(ctx context.Context, t Target, r *http.Request) (*url.URL, error) {
		s, err := streams(r.URL.Query())
		if err != nil {
			return nil, err
		}
		return p.Attach(ctx, t, s)
	}
}

func openPortForward(p Pods) opener {
	return func(ctx context.Context, t Target, r *http.Request) (*url.URL, error) {
		ports, err := ports(r.URL.Query()["port"])
		if err != nil {
			return nil, err
		}
		return p.PortForward(ctx, t, ports)
	}
}

// streams reads the query of exec and attach: what the API server sends, and the words of
// the API itself.
func streams(query url.Values) (Streams, error) {
	s := Streams{
		Command: query["command"],
		Stdin:   isSet(query, "input", "stdin"), Stdout: isSet(query, "output", "stdout"), Stderr: isSet(query, "error", "stderr"),
		TTY: isSet(query, "tty"),
	}
	if s.TTY {
		s.Stderr = false // a terminal has one output
	}
	if !s.Stdin && !s.Stdout && !s.Stderr {
		return Streams{}, bad("input, output, error: at least one stream has to be asked for")
	}
	return s, nil
}

func isSet(query url.Values, names ...string) bool {
	for _, name := range names {
		if on, _ := flag(query, name); on {
			return true
		}
	}
	return false
}

// ports are those that a WebSocket names; SPDY names them per connection.
func ports(values []string) ([]int32, error) {
	var out []int32
	for _, value := range values {
		for _, text := range strings.Split(value, ",") {
			port, err := strconv.ParseUint(text, 10, 16)
			if err != nil || port == 0 {
				return nil, bad(fmt.Sprintf("port: %.20q is not a port (1 to 65535)", text))
			}
			out = append(out, int32(port))
		}
	}
	return out, nil
}

// sessions passes connections on to the runtime, whatever is spoken over them (SPDY or
// WebSocket).
type sessions struct {
	open opener
	idle time.Duration
}

func (s sessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !httpguts.HeaderValuesContainsToken(r.Header["Connection"], "upgrade") || r.Header.Get("Upgrade") == "" {
		http.Error(w, "the connection has to be upgraded to SPDY or WebSocket", http.StatusBadRequest)
		return
	}
	where, err := s.open(r.Context(), target(r), r)
	if err != nil {
		refuse(w, err)
		return
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL, p.Out.Host = where, where.Host
			p.Out.Header.Del("Authorization") // it is the kubelet that was asked
			p.Out.Header.Del("Cookie")
		},
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: s.dial},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "runtime: "+err.Error(), http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(takeover{w, s.idle}, r)
}

// takeover bounds the silence of a connection that is taken over.
type takeover struct {
	http.ResponseWriter
	idle time.Duration
}

func (t takeover) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &idleConn{Conn: conn, limit: t.idle}, buffered, nil
}

const dialTimeout = 30 * time.Second

// dial reaches the runtime.
func (s sessions) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &idleConn{Conn: conn, limit: s.idle}, nil
}

// idleConn fails once nothing has been read or written for limit. Without CloseWrite it
// lets the proxy end a session as soon as one of its sides has ended.
type idleConn struct {
	net.Conn
	limit time.Duration
}

func (c *idleConn) Read(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *idleConn) Write(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

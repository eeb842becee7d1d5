package kubeletapi

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

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// opener requests a session from the runtime and returns its URL.
type opener func(r *http.Request) (sessionURL string, err error)

func (c *Config) openExec(r *http.Request) (string, error) {
	s, err := wanted(r.URL.Query())
	if err != nil {
		return "", err
	}
	command := r.URL.Query()["command"]
	if len(command) == 0 {
		return "", badRequest("command: required for exec")
	}
	container, err := c.Pods.RunningContainer(r.Context(), TargetOf(r))
	if err != nil {
		return "", err
	}
	answer, err := c.Runtime.Exec(r.Context(), &runtimeapi.ExecRequest{
		ContainerId: container.ID, Cmd: command, Stdin: s.stdin, Stdout: s.stdout, Stderr: s.stderr, Tty: s.tty,
	})
	return answer.GetUrl(), err
}

// openAttach uses the container's terminal setting and ignores the client's.
func (c *Config) openAttach(r *http.Request) (string, error) {
	s, err := wanted(r.URL.Query())
	if err != nil {
		return "", err
	}
	container, err := c.Pods.RunningContainer(r.Context(), TargetOf(r))
	if err != nil {
		return "", err
	}
	answer, err := c.Runtime.Attach(r.Context(), &runtimeapi.AttachRequest{
		ContainerId: container.ID, Stdin: s.stdin, Stdout: s.stdout, Stderr: s.stderr && !container.TTY, Tty: container.TTY,
	})
	return answer.GetUrl(), err
}

func (c *Config) openPortForward(r *http.Request) (string, error) {
	ports, err := ports(r.URL.Query()["port"])
	if err != nil {
		return "", err
	}
	sandbox, err := c.Pods.RunningSandbox(r.Context(), TargetOf(r))
	if err != nil {
		return "", err
	}
	answer, err := c.Runtime.PortForward(r.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandbox, Port: ports})
	return answer.GetUrl(), err
}

type streams struct{ stdin, stdout, stderr, tty bool }

// wanted reads the query of exec and attach. It accepts the API server's parameter names and those
// of the API. A terminal merges stderr into stdout.
func wanted(query url.Values) (streams, error) {
	s := streams{
		stdin: isSet(query, "input", "stdin"), stdout: isSet(query, "output", "stdout"), stderr: isSet(query, "error", "stderr"),
		tty: isSet(query, "tty"),
	}
	s.stderr = s.stderr && !s.tty
	if !s.stdin && !s.stdout && !s.stderr {
		return streams{}, badRequest("input, output, error: at least one stream is required")
	}
	return s, nil
}

func isSet(query url.Values, names ...string) bool {
	for _, name := range names {
		if flag(query, name) {
			return true
		}
	}
	return false
}

// ports parses the ports of a WebSocket request. SPDY sends them per connection.
func ports(values []string) ([]int32, error) {
	var out []int32
	for _, value := range values {
		for _, text := range strings.Split(value, ",") {
			port, err := strconv.ParseUint(text, 10, 16)
			if err != nil || port == 0 {
				return nil, badRequest(fmt.Sprintf("port: %.20q is not a port (1 to 65535)", text))
			}
			out = append(out, int32(port))
		}
	}
	return out, nil
}

// sessions proxies connections to the runtime, with SPDY or WebSocket.
type sessions struct {
	open opener
	idle time.Duration
}

func (s sessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !upgrades(r.Header) {
		http.Error(w, "the connection must be upgraded to SPDY or WebSocket", http.StatusBadRequest)
		return
	}
	at, err := s.open(r)
	if err != nil {
		Refuse(w, err)
		return
	}
	where, err := url.Parse(at)
	if err != nil {
		Refuse(w, fmt.Errorf("the runtime's URL of the session: %w", err))
		return
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL, p.Out.Host = where, where.Host
			p.Out.Header.Del("Authorization") // credentials for the kubelet, not the runtime
			p.Out.Header.Del("Cookie")
		},
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: s.dial},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "runtime: "+err.Error(), http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(takeover{w, s.idle}, r)
}

// upgrades reports whether a client requests another protocol (RFC 9110, 7.8).
func upgrades(h http.Header) bool {
	for token := range strings.SplitSeq(strings.Join(h["Connection"], ","), ",") {
		if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
			return h.Get("Upgrade") != ""
		}
	}
	return false
}

// takeover bounds the idle time of a hijacked connection.
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

func (s sessions) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &idleConn{Conn: conn, limit: s.idle}, nil
}

// idleConn fails after limit without a read or write. It has no CloseWrite, so the proxy ends a
// session when one side ends.
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

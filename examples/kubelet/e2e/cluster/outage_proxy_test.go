package cluster_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// proxy is a proxy with faults between one kubelet and the API server. It terminates the kubelet's
// TLS and therefore has the identity of the node.
type proxy struct {
	URL string

	// fault handles a request and returns true, or returns false. nil is no fault.
	fault atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	// down closes all connections. blackhole discards all data in both directions, permanently for
	// each connection that is affected: its client must give it up.
	down, blackhole atomic.Bool
	// shortTokens sets the expiration of service account tokens in responses to tokenLife. Real
	// tokens last ten minutes or more.
	shortTokens atomic.Bool

	mu      sync.Mutex
	conns   map[*proxiedConn]bool
	watches map[*byte]context.CancelFunc
}

// newProxy serves for the node of this kubeconfig until the test ends.
func newProxy(t *testing.T, plane controlplane.Handle, kubeconfig string) *proxy {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(plane.Certificate, plane.Key)
	require.NoError(t, err)
	server, err := url.Parse(plane.URL)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{URL: "https://" + l.Addr().String(), conns: map[*proxiedConn]bool{}, watches: map[*byte]context.CancelFunc{}}
	transport := &http.Transport{TLSClientConfig: credentials(t, kubeconfig), ForceAttemptHTTP2: true}
	silent := log.New(io.Discard, "", 0)
	forward := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: silent,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			if isToken(r.In) {
				r.Out.Header.Set("Accept", "application/json")
				r.Out.Header.Del("Accept-Encoding")
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if !p.shortTokens.Load() || !isToken(r.Request) || r.StatusCode != http.StatusCreated {
				return nil
			}
			return shorten(r)
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	srv := &http.Server{
		Handler: p.handler(forward), ErrorLog: silent,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12},
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeTLS(&listener{l, p}, "", "") }()
	t.Cleanup(func() {
		p.closeAll()
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
		transport.CloseIdleConnections()
	})
	return p
}

func (p *proxy) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fault := p.fault.Load(); fault != nil && (*fault)(w, r) {
			return
		}
		if isWatch(r) && r.URL.Path == "/api/v1/pods" {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer p.watching(cancel)()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// tokenLife is the lifetime of tokens with shortTokens. A new token is due after 6 to 16 s.
const tokenLife = 20 * time.Second

func isToken(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/token")
}

// shorten replaces the expiration in a response. The token itself does not change.
func shorten(r *http.Response) error {
	var token authv1.TokenRequest
	if err := json.NewDecoder(r.Body).Decode(&token); err != nil {
		return err
	}
	token.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(tokenLife))
	text, err := json.Marshal(token)
	r.Body = io.NopCloser(bytes.NewReader(text))
	r.ContentLength = int64(len(text))
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return err
}

func isWatch(r *http.Request) bool { return r.URL.Query().Has("watch") }

// watching registers a watch of pods until done is called.
func (p *proxy) watching(stop context.CancelFunc) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := new(byte)
	p.watches[id] = stop
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, id)
	}
}

// cutWatches ends the watches of pods without an error.
func (p *proxy) cutWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, stop := range p.watches {
		stop()
	}
}

// set sets the fault of requests; nil removes it.
func (p *proxy) set(fault func(http.ResponseWriter, *http.Request) bool) {
	if fault == nil {
		p.fault.Store(nil)
		return
	}
	p.fault.Store(&fault)
}

// setDown(true) closes all connections and refuses new ones; setDown(false) ends that.
func (p *proxy) setDown(down bool) {
	p.down.Store(down)
	if down {
		p.closeAll()
	}
}

func (p *proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Conn.Close() // the server reads from it and closes it again
	}
}

func slow(d time.Duration) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
		return false
	}
}

func refusing(code int, reason metav1.StatusReason, when func(*http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !when(r) {
			return false
		}
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Reason: reason, Code: int32(code), Message: "fault of the test proxy",
		})
		return true
	}
}

func always(*http.Request) bool { return true }

type listener struct {
	net.Listener
	proxy *proxy
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.proxy.down.Load() {
			_ = conn.Close() // intended
			continue
		}
		c := &proxiedConn{Conn: conn, proxy: l.proxy}
		l.proxy.mu.Lock()
		l.proxy.conns[c] = true
		l.proxy.mu.Unlock()
		return c, nil
	}
}

type proxiedConn struct {
	net.Conn
	proxy *proxy
	lost  atomic.Bool
}

// discards reports whether data on the connection is discarded. This never ends once it has begun.
func (c *proxiedConn) discards() bool {
	if c.proxy.blackhole.Load() {
		c.lost.Store(true)
	}
	return c.lost.Load()
}

func (c *proxiedConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.discards() {
			return n, err
		}
	}
}

func (c *proxiedConn) Write(b []byte) (int, error) {
	if c.discards() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *proxiedConn) Close() error {
	c.proxy.mu.Lock()
	delete(c.proxy.conns, c)
	c.proxy.mu.Unlock()
	return c.Conn.Close()
}

// behindProxy returns a ready node that reaches the API server only through a proxy.
func behindProxy(t *testing.T, plane controlplane.Handle, rt tb.Runtime) (*node, *proxy) {
	t.Helper()
	var p *proxy
	n := newStoppedNode(t, plane, rt, func(n *node) {
		p = newProxy(t, plane, plane.NodeKubeconfig(t, n.name, 0))
		n.URL = p.URL
	})
	n.start(t)
	n.nodeReady(t)
	return n, p
}

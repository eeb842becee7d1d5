package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// runtime is a streaming server that echoes what it gets in capitals, or refuses.
func runtime(t *testing.T, code int) (at *url.URL, asked chan *http.Request) {
	t.Helper()
	asked = make(chan *http.Request, 10000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		if code != http.StatusSwitchingProtocols {
			http.Error(w, "token is used up", code)
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
		w.Header().Set("X-Stream-Protocol-Version", "v4.channel.k8s.io")
		w.WriteHeader(code)
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.Copy(conn, buffered)
	}))
	t.Cleanup(s.Close)
	at, err := url.Parse(s.URL + "/exec/token?of=runtime")
	require.NoError(t, err)
	return at, asked
}

// serving runs ServeAPI until the test ends, and dials it.
func serving(t *testing.T, h http.Handler) (dial func() net.Conn, stop func()) {
	t.Helper()
	certificates := httptest.NewUnstartedServer(nil)
	certificates.StartTLS()
	t.Cleanup(certificates.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- ServeAPI(ctx, l, &tls.Config{Certificates: certificates.TLS.Certificates, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, h, slog.New(slog.DiscardHandler))
	}()
	stop = func() {
		if ctx.Err() == nil {
			cancel()
			require.NoError(t, <-ended)
		}
	}
	t.Cleanup(stop)
	return func() net.Conn {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		return conn
	}, stop
}

func begin(t *testing.T, conn net.Conn, path string) (*http.Response, *bufio.Reader) {
	t.Helper()
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer secret\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n", path)
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	return response, r
}

// A32: whatever is spoken passes in both directions, to the runtime's URL and without the
// client's credentials.
func TestSessions(t *testing.T) {
	for path, want := range map[string]asked{
		"/exec/ns/p/c?command=ls&command=-l&input=1&output=1&error=1": {
			target: Target{Namespace: "ns", Pod: "p", Container: "c"}, streams: Streams{Command: []string{"ls", "-l"}, Stdin: true, Stdout: true, Stderr: true},
		},
		"/exec/ns/p/uid/c?command=sh&stdin=true&stdout=true&tty=true&stderr=true": {
			target: Target{Namespace: "ns", Pod: "p", UID: "uid", Container: "c"}, streams: Streams{Command: []string{"sh"}, Stdin: true, Stdout: true, TTY: true},
		},
		"/attach/ns/p/c?output=1":              {target: Target{Namespace: "ns", Pod: "p", Container: "c"}, streams: Streams{Stdout: true}},
		"/portForward/ns/p?port=80,81&port=82": {target: Target{Namespace: "ns", Pod: "p"}, ports: []int32{80, 81, 82}},
		"/portForward/ns/p/uid":                {target: Target{Namespace: "ns", Pod: "p", UID: "uid"}},
	} {
		t.Run(path, func(t *testing.T) {
			at, requests := runtime(t, http.StatusSwitchingProtocols)
			p := &asked{at: at}
			dial, _ := serving(t, api(t, func(c *APIConfig) { c.Pods = p }))
			conn := dial()
			response, r := begin(t, conn, path)
			require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
			require.Equal(t, "v4.channel.k8s.io", response.Header.Get("X-Stream-Protocol-Version"))
			_, err := io.WriteString(conn, "hello")
			require.NoError(t, err)
			got := make([]byte, 5)
			_, err = io.ReadFull(r, got)
			require.NoError(t, err)
			require.Equal(t, "hello", string(got))
			require.Equal(t, want, asked{target: p.target, streams: p.streams, ports: p.ports})
			sent := <-requests
			require.Equal(t, "/exec/token?of=runtime", sent.URL.String())
			require.Equal(t, "SPDY/3.1", sent.Header.Get("Upgrade"))
			require.Equal(t, "v4.channel.k8s.io", sent.Header.Get("X-Stream-Protocol-Version"))
			require.Empty(t, sent.Header.Get("Authorization"))
		})
	}
}

// What the runtime refuses is told, and so is what it cannot be asked for.
func TestRefusedSessions(t *testing.T) {
	at, _ := runtime(t, http.StatusNotFound)
	gone, err := url.Parse("http://127.0.0.1:1/exec/token")
	require.NoError(t, err)
	for _, c := range []struct {
		path string
		pods asked
		code int
		text string
	}{
		{"/exec/ns/p/c?command=ls&output=1", asked{at: at}, 404, "token is used up"},
		{"/exec/ns/p/c?command=ls&output=1", asked{at: gone}, 502, "runtime: "},
		{"/exec/ns/p/c?command=ls&output=1", asked{err: &Refusal{404, "no such pod"}}, 404, "no such pod"},
		{"/exec/ns/p/c?command=ls", asked{at: at}, 400, "at least one stream"},
		{"/exec/ns/p/c?command=ls&output=0", asked{at: at}, 400, "at least one stream"},
		{"/exec/ns/p/c?output=1", asked{at: at}, 400, "command"},
		{"/attach/ns/p/c", asked{at: at}, 400, "at least one stream"},
		{"/portForward/ns/p?port=0", asked{at: at}, 400, "port"},
		{"/portForward/ns/p?port=65536", asked{at: at}, 400, "port"},
		{"/portForward/ns/p?port=-1", asked{at: at}, 400, "port"},
	} {
		p := c.pods
		dial, _ := serving(t, api(t, func(cfg *APIConfig) { cfg.Pods = &p }))
		response, _ := begin(t, dial(), c.path)
		require.Equal(t, c.code, response.StatusCode, c.path)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), c.text, c.path)
	}
}

func TestSessionsNeedAnUpgrade(t *testing.T) {
	p := &asked{}
	w := do(api(t, func(c *APIConfig) { c.Pods = p }), http.MethodPost, "/exec/ns/p/c?command=ls&output=1")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "upgraded")
	require.Zero(t, p.calls, "the runtime is not asked for a session that nobody begins")
}

// A session over which nothing goes ends, whoever keeps its connections.
func TestSilentSessionsEnd(t *testing.T) {
	at, _ := runtime(t, http.StatusSwitchingProtocols)
	dial, _ := serving(t, api(t, func(c *APIConfig) { c.Pods, c.IdleTimeout = &asked{at: at}, 50*time.Millisecond }))
	conn := dial()
	_, r := begin(t, conn, "/attach/ns/p/c?output=1")
	_, err := r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

// The end of the server ends its sessions and the followed logs, and waits for them.
func TestEndOfTheServerEndsSessions(t *testing.T) {
	at, _ := runtime(t, http.StatusSwitchingProtocols)
	dial, stop := serving(t, api(t, func(c *APIConfig) { c.Pods = &asked{at: at, out: "out", wait: make(chan struct{})} }))
	session, log := dial(), dial()
	_, r := begin(t, session, "/attach/ns/p/c?output=1")
	_, err := io.WriteString(log, "GET /containerLogs/ns/p/c?follow=1 HTTP/1.1\r\nHost: node\r\n\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(log), nil)
	require.NoError(t, err)
	some := make([]byte, 3)
	_, err = io.ReadFull(response.Body, some)
	require.NoError(t, err)
	require.Equal(t, "out", string(some), "what is written comes at once")
	stop()
	_, err = r.ReadByte()
	require.Error(t, err)
	_, _ = io.ReadAll(response.Body)
}

// One session too many is told so, and one that ends makes room.
func TestTooManySessions(t *testing.T) {
	at, _ := runtime(t, http.StatusSwitchingProtocols)
	dial, _ := serving(t, api(t, func(c *APIConfig) { c.Pods, c.MaxStreams = &asked{at: at}, 1 }))
	first := dial()
	_, r := begin(t, first, "/attach/ns/p/c?output=1")
	response, _ := begin(t, dial(), "/attach/ns/p/c?output=1")
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	require.NoError(t, first.Close())
	_, _ = io.Copy(io.Discard, r)
	require.Eventually(t, func() bool {
		response, _ := begin(t, dial(), "/attach/ns/p/c?output=1")
		return response.StatusCode == http.StatusSwitchingProtocols
	}, 30*time.Second, 10*time.Millisecond)
}

// What is no TLS ends its own connection only.
func TestGarbageOnThePort(t *testing.T) {
	dial, _ := serving(t, api(t, nil))
	good := dial()
	for _, garbage := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff", "\x00", "SSH-2.0-x\r\n"} {
		conn, err := net.Dial("tcp", good.RemoteAddr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, garbage)
		require.NoError(t, err)
		defer conn.Close()
	}
	_, err := io.WriteString(good, "GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(good), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
}

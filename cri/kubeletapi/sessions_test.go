package kubeletapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/memnet"
)

// runtime is a streaming server that echoes in capitals, or refuses with code.
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

// serving serves a handler over TCP until the test ends. stop ends its requests.
func serving(t *testing.T, h http.Handler) (dial func() net.Conn, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewUnstartedServer(h)
	s.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	s.Config.ReadTimeout, s.Config.WriteTimeout = 30*time.Second, 30*time.Second
	s.Start()
	stop = func() {
		cancel()
		s.Close()
	}
	t.Cleanup(stop)
	return func() net.Conn {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		return conn
	}, stop
}

// inMemory is serving without sockets, for bubbles.
func inMemory(t *testing.T, h http.Handler) (dial func() net.Conn) {
	t.Helper()
	listener := memnet.Listen(1 << 16)
	s := &http.Server{Handler: h, ReadTimeout: soon, WriteTimeout: soon}
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(listener) })
	t.Cleanup(func() {
		_ = s.Close()
		served.Wait()
	})
	return func() net.Conn {
		conn, err := listener.DialContext(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
}

// soon is the server's timeout for requests that do not set their own deadline.
const soon = 2 * time.Second

func begin(t *testing.T, conn net.Conn, path string) (*http.Response, *bufio.Reader) {
	t.Helper()
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer secret\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n", path)
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	return response, r
}

// A refused request ends its connection, although the client sends no body.
func TestRefusedRequestEndsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, &asked{}, func(c *Config) { c.Allow = func(*http.Request) error { return errors.New("no") } })
		conn, began := inMemory(t, h)(), time.Now()
		_, err := io.WriteString(conn, "POST /exec/ns/p/c HTTP/1.1\r\nHost: n\r\nContent-Length: 1000\r\n\r\n")
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, conn)
		require.NoError(t, err)
		require.Less(t, time.Since(began), soon)
	})
}

// A32: all bytes pass in both directions, to the runtime's URL and without the client's
// credentials.
func TestSessions(t *testing.T) {
	for path, want := range map[string]struct {
		target Target
		sent   fmt.Stringer
	}{
		"/exec/ns/p/c?command=ls&command=-l&input=1&output=1&error=1": {
			Target{Namespace: "ns", Pod: "p", Container: "c"},
			&runtimeapi.ExecRequest{ContainerId: "id of c", Cmd: []string{"ls", "-l"}, Stdin: true, Stdout: true, Stderr: true},
		},
		"/exec/ns/p/uid/c?command=sh&stdin=true&stdout=true&tty=true&stderr=true": {
			Target{Namespace: "ns", Pod: "p", UID: "uid", Container: "c"},
			&runtimeapi.ExecRequest{ContainerId: "id of c", Cmd: []string{"sh"}, Stdin: true, Stdout: true, Tty: true},
		},
		"/attach/ns/p/c?output=1&error=1&tty=1": {
			Target{Namespace: "ns", Pod: "p", Container: "c"}, &runtimeapi.AttachRequest{ContainerId: "id of c", Stdout: true},
		},
		"/attach/ns/p/c?output=1&error=1": {
			Target{Namespace: "ns", Pod: "p", Container: "c"}, &runtimeapi.AttachRequest{ContainerId: "id of c", Stdout: true, Stderr: true},
		},
		"/attach/ns/p/terminal?output=1&error=1": {
			Target{Namespace: "ns", Pod: "p", Container: "terminal"}, &runtimeapi.AttachRequest{ContainerId: "id of terminal", Stdout: true, Tty: true},
		},
		"/portForward/ns/p?port=80,81&port=82": {
			Target{Namespace: "ns", Pod: "p"}, &runtimeapi.PortForwardRequest{PodSandboxId: "id of p", Port: []int32{80, 81, 82}},
		},
		"/portForward/ns/p/uid": {
			Target{Namespace: "ns", Pod: "p", UID: "uid"}, &runtimeapi.PortForwardRequest{PodSandboxId: "id of p"},
		},
	} {
		t.Run(path, func(t *testing.T) {
			at, requests := runtime(t, http.StatusSwitchingProtocols)
			p := &asked{at: at}
			dial, _ := serving(t, handler(t, p, nil))
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
			require.Equal(t, want.target, p.target)
			require.Equal(t, want.sent.String(), p.sent.String())
			sent := <-requests
			require.Equal(t, "/exec/token?of=runtime", sent.URL.String())
			require.Equal(t, "SPDY/3.1", sent.Header.Get("Upgrade"))
			require.Equal(t, "v4.channel.k8s.io", sent.Header.Get("X-Stream-Protocol-Version"))
			require.Empty(t, sent.Header.Get("Authorization"))
		})
	}
}

// Refusals of the runtime, and errors in reaching it, get to the client.
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
		{"/exec/ns/p/c?command=ls&output=1", asked{refused: status.Error(codes.NotFound, "no such container")}, 404, "no such container"},
		{"/exec/ns/p/c?command=ls", asked{at: at}, 400, "at least one stream"},
		{"/exec/ns/p/c?command=ls&output=0", asked{at: at}, 400, "at least one stream"},
		{"/exec/ns/p/c?output=1", asked{at: at}, 400, "command"},
		{"/attach/ns/p/c", asked{at: at}, 400, "at least one stream"},
		{"/portForward/ns/p?port=0", asked{at: at}, 400, "port"},
		{"/portForward/ns/p?port=65536", asked{at: at}, 400, "port"},
		{"/portForward/ns/p?port=-1", asked{at: at}, 400, "port"},
	} {
		p := c.pods
		dial, _ := serving(t, handler(t, &p, nil))
		response, _ := begin(t, dial(), c.path)
		require.Equal(t, c.code, response.StatusCode, c.path)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), c.text, c.path)
	}
}

func TestSessionsNeedAnUpgrade(t *testing.T) {
	p := &asked{}
	w := do(handler(t, p, nil), http.MethodPost, "/exec/ns/p/c?command=ls&output=1")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "upgraded")
	require.Zero(t, p.calls, "a session that no client begins causes no runtime call")
}

// An idle session ends, even if its peers keep their connections open.
func TestSilentSessionsEnd(t *testing.T) {
	at, _ := runtime(t, http.StatusSwitchingProtocols)
	dial, _ := serving(t, handler(t, &asked{at: at}, func(c *Config) { c.IdleTimeout = 50 * time.Millisecond }))
	conn := dial()
	_, r := begin(t, conn, "/attach/ns/p/c?output=1")
	_, err := io.Copy(io.Discard, r) // on a slow machine a refusal, if the runtime needs more than 50 ms
	require.NoError(t, err)
}

// The end of the server ends its sessions and followed logs, and waits for them.
func TestEndOfTheServerEndsSessions(t *testing.T) {
	at, _ := runtime(t, http.StatusSwitchingProtocols)
	dial, stop := serving(t, handler(t, &asked{at: at, out: "out", wait: make(chan struct{})}, nil))
	session, log := dial(), dial()
	_, r := begin(t, session, "/attach/ns/p/c?output=1")
	body := follow(t, log)
	stop()
	_, err := r.ReadByte()
	require.Error(t, err)
	_, _ = io.ReadAll(body)
}

// A request above MaxSessions is refused with the limit. A session that ends frees its place.
func TestTooManySessions(t *testing.T) {
	at, _ := runtime(t, http.StatusSwitchingProtocols)
	dial, _ := serving(t, handler(t, &asked{at: at}, func(c *Config) { c.MaxSessions = 1 }))
	first := dial()
	_, r := begin(t, first, "/attach/ns/p/c?output=1")
	response, body := begin(t, dial(), "/attach/ns/p/c?output=1")
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	said, err := body.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, said, "limit 1", "the message has the limit")
	require.NoError(t, first.Close())
	_, _ = io.Copy(io.Discard, r)
	require.Eventually(t, func() bool {
		response, _ := begin(t, dial(), "/attach/ns/p/c?output=1")
		return response.StatusCode == http.StatusSwitchingProtocols
	}, 30*time.Second, 10*time.Millisecond)
}

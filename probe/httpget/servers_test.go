package httpget

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/internal/networktest"
)

// T47: redirects within the host are followed, with changes of scheme and port. Redirects to
// another host are a Warning. The limit is ten.
func TestRedirects(t *testing.T) {
	tls := serve(t, "127.0.0.1", true, func(http.ResponseWriter, *http.Request) {})
	refusing := networktest.Refusing(t, "127.0.0.1").String()
	s := serve(t, "127.0.0.1", false, func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{
			"/here":     "/there",
			"/relative": "there",
			"/tls":      tls.URL + "/over",
			"/away":     "http://localhost:1/stolen?" + secret,
			"/blank":    "",
			"/odd":      "gopher://127.0.0.1/x",
			"/broken":   "http://[/" + secret,
			"/refused":  "http://" + refusing + "/?" + secret,
			"/far":      "http://" + strings.Repeat("a", 1000) + "/",
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/n/")); err == nil && n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/n/%d", n-1), http.StatusTemporaryRedirect)
			return
		}
		where, ok := to[r.URL.Path]
		switch {
		case r.URL.Path == "/to-error":
			http.Redirect(w, r, "/error", http.StatusMovedPermanently)
		case r.URL.Path == "/error":
			http.Error(w, secret, http.StatusInternalServerError)
		case ok && where == "":
			w.WriteHeader(http.StatusFound)
		case ok:
			w.Header().Set("Location", where)
			w.WriteHeader(http.StatusFound)
			_, _ = io.WriteString(w, secret)
			if r.URL.Path == "/far" {
				_, _ = io.WriteString(w, strings.Repeat("b", maxBody))
			}
		}
	})
	get := func(path string) string { return fmt.Sprintf("Get %q: ", s.URL+path) }
	for path, want := range map[string]probe.Result{
		"/here":     {Verdict: probe.Success, Output: "HTTP status 200"},
		"/relative": {Verdict: probe.Success, Output: "HTTP status 200"},
		"/tls":      {Verdict: probe.Success, Output: "HTTP status 200"},
		"/n/10":     {Verdict: probe.Success, Output: "HTTP status 200"},
		"/n/11":     {Verdict: probe.Failure, Output: get("/n/11") + "stopped after 10 redirects"},
		"/n/100000": {Verdict: probe.Failure, Output: get("/n/100000") + "stopped after 10 redirects"},
		"/to-error": {Verdict: probe.Failure, Output: "HTTP probe failed with statuscode: 500"},
		"/away":     {Verdict: probe.Warning, Output: "Probe terminated redirects, Response body: " + secret},
		"/far":      {Verdict: probe.Warning, Output: "Probe terminated redirects, Response body: " + secret + strings.Repeat("b", maxBody-len(secret))},
		"/blank":    {Verdict: probe.Warning, Output: "Probe terminated redirects, Response body: "},
		"/odd":      {Verdict: probe.Failure, Output: get("/odd") + "no valid HTTP response"},
		"/broken":   {Verdict: probe.Failure, Output: get("/broken") + "no valid HTTP response"},
		"/refused":  {Verdict: probe.Failure, Output: get("/refused") + "dial tcp " + refusing + ": connect: connection refused"},
	} {
		require.Equal(t, want, result(t, s.target(path)), path)
	}
	require.Equal(t, "/over", tls.requests()[0].URL.Path)
	before := len(s.requests())
	result(t, s.target("/n/11"))
	require.Len(t, s.requests(), before+11, "the request and ten redirects")
}

func raw(t *testing.T, handle func(net.Conn)) net.Addr {
	return networktest.Serve(t, "127.0.0.1", handle).Addr()
}

// say returns a handler that reads a request and responds with text.
func say(text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = io.WriteString(conn, text)
	}
}

// For every defect of a server, the verdict is Failure without data of the server.
func TestBadServers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, tc := range map[string]struct {
		handle func(net.Conn)
		want   string
	}{
		"closes":          {func(net.Conn) {}, "EOF|connection reset by peer|broken pipe|no valid HTTP response"},
		"reads, closes":   {say(""), "EOF"},
		"no HTTP":         {say("220 " + secret + "\r\n\r\n"), "no valid HTTP response"},
		"no header":       {say(ok + secret + "\r\n\r\n"), "no valid HTTP response"},
		"half a header":   {say(ok + "X: " + secret), "EOF"},
		"bad status":      {say("HTTP/1.1 " + secret + "\r\n\r\n"), "no valid HTTP response"},
		"bad length":      {say(ok + "Content-Length: " + secret + "\r\n\r\n"), "no valid HTTP response"},
		"body breaks off": {say(ok + "Content-Length: 100\r\n\r\n" + secret), "HTTP status 200, but the response was interrupted"},
		"chunk is none":   {say(ok + "Transfer-Encoding: chunked\r\n\r\n" + secret), "HTTP status 200, but the response was interrupted"},
		"huge header":     {say(ok + "X: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n"), "no valid HTTP response"},
		"switches":        {say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), "HTTP probe failed with statuscode: 101"},
	} {
		t.Run(name, func(t *testing.T) {
			got := result(t, target(raw(t, tc.handle), "/"))
			require.Equal(t, probe.Failure, got.Verdict, got)
			require.Regexp(t, "("+tc.want+")$", got.Output)
			require.NotContains(t, got.Output, secret)
		})
	}
}

// A minimal response with a good status passes.
func TestTerseServers(t *testing.T) {
	for name, text := range map[string]string{
		"old":          "HTTP/1.0 200 OK\r\n\r\nbody until the end",
		"no reason":    "HTTP/1.1 200\r\n\r\n",
		"hints before": "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"more behind":  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more",
	} {
		require.Equal(t, probe.Result{Verdict: probe.Success, Output: "HTTP status 200"}, result(t, target(raw(t, say(text)), "/")), name)
	}
}

// A TLS server fails with scheme HTTP, and a plain server with HTTPS.
func TestSchemeMismatch(t *testing.T) {
	tls := serve(t, "127.0.0.1", true, func(http.ResponseWriter, *http.Request) {})
	require.Equal(t, probe.Result{Verdict: probe.Failure, Output: "HTTP probe failed with statuscode: 400"}, result(t, tls.target("/")))
	plain := serve(t, "127.0.0.1", false, func(http.ResponseWriter, *http.Request) {})
	to := plain.target("/")
	to.Probe.HTTPGet.Scheme = v1.URISchemeHTTPS
	require.Equal(t, probe.Result{Verdict: probe.Failure, Output: fmt.Sprintf("Get %q: http: server gave HTTP response to HTTPS client", strings.Replace(plain.URL, "http:", "https:", 1)+"/")}, result(t, to))
	to = target(raw(t, say(secret)), "/")
	to.Probe.HTTPGet.Scheme = v1.URISchemeHTTPS
	got := result(t, to)
	require.Equal(t, probe.Failure, got.Verdict)
	require.NotContains(t, got.Output, secret)
	require.Contains(t, got.Output, "tls: first record does not look like a TLS handshake")

	got = result(t, target(networktest.Refusing(t, "127.0.0.1"), "/"))
	require.Equal(t, probe.Failure, got.Verdict)
	require.Contains(t, got.Output, "connection refused")
}

// T49: only the start of a large or endless body is read.
func TestLargeBody(t *testing.T) {
	for name, length := range map[string]int64{"50 KiB": 50 << 10, "endless": 1 << 40} {
		var sent atomic.Int64
		s := serve(t, "127.0.0.1", false, func(w http.ResponseWriter, _ *http.Request) {
			chunk := make([]byte, 1024)
			for left := length; left > 0; left -= int64(len(chunk)) {
				if _, err := w.Write(chunk); err != nil {
					return
				}
				sent.Add(int64(len(chunk)))
			}
		})
		var read atomic.Int64
		p, err := New(Config{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return counting{conn, &read}, err
		}})
		require.NoError(t, err)
		got, err := p.Probe(t.Context(), s.target("/"))
		require.NoError(t, err)
		require.Equal(t, probe.Success, got.Verdict, name)
		// Headers, the framing of chunks and a full buffer come on top.
		require.Less(t, read.Load(), int64(16<<10), name)
		require.GreaterOrEqual(t, read.Load(), int64(10<<10), name)
		s.Close()
	}
}

type counting struct {
	net.Conn
	n *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// A missing or incomplete response fails at the timeout, which includes redirects and the body.
func TestTimeout(t *testing.T) {
	s := serve(t, "127.0.0.1", false, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/hang", http.StatusFound)
			return
		case "/begin":
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	})
	silent := networktest.Silent(t, "127.0.0.1")
	before := networktest.Open(t)
	// The last one connects in time. A loaded machine may need longer for the others.
	for _, path := range []string{"/hang", "/redirect", "silent", "/begin"} {
		to := s.target(path)
		if path == "silent" {
			to = target(silent.Addr(), "/")
		}
		to.Timeout = 30 * time.Millisecond
		late := lateHeader
		if path == "/begin" {
			to.Timeout, late = time.Second, lateBody
		}
		url := s.URL + path
		if path == "silent" {
			url = "http://" + silent.Addr().String() + "/"
		}
		want := fmt.Sprintf("Get %q: %s", url, late)
		got := result(t, to)
		for late == lateBody && strings.HasSuffix(got.Output, lateHeader) && to.Timeout < time.Minute { // the machine is loaded
			to.Timeout *= 2
			got = result(t, to)
		}
		require.Equal(t, probe.Result{Verdict: probe.Failure, Output: want}, got, path)
	}
	for _, addr := range []net.Addr{s.Listener.Addr(), silent.Addr()} {
		require.Zero(t, networktest.Sockets(t, addr)[networktest.Established], "closed when Probe returns")
	}
	networktest.Eventually(t, func() bool { return networktest.Open(t) <= before+1 })
}

// A TLS server may detect the end of the wait shortly before the connection ends. Many handlers
// then respond with 200. This response is too late, even if it arrives before the end of the
// request.
func TestLateAnswer(t *testing.T) {
	own, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	e := &exchange{url: "http://10.0.0.9/"}
	for status, want := range map[int]string{200: e.get(lateBody), 302: e.get(lateBody), 500: "HTTP probe failed with statuscode: 500"} {
		got, err := e.verdict(t.Context(), own, status, nil, nil)
		require.NoError(t, err)
		require.Equal(t, probe.Result{Verdict: probe.Failure, Output: want}, got)
	}
}

// An error status is reported even if its body does not end in time.
func TestErrorTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				_, _ = http.ReadRequest(bufio.NewReader(far))
				_, _ = io.WriteString(far, "HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\n")
				_, _ = io.Copy(io.Discard, far)
			}()
			return near, nil
		}})
		require.NoError(t, err)
		begin := time.Now()
		got, err := p.Probe(t.Context(), target(&net.TCPAddr{Port: 80}, "/"))
		require.NoError(t, err)
		require.Equal(t, probe.Result{Verdict: probe.Failure, Output: "HTTP probe failed with statuscode: 500"}, got)
		require.Equal(t, time.Minute+closeWait, time.Since(begin), "the connection ends without a reset")
	})
}

// A cancelled probe is an error; a timeout is a Failure.
func TestCancel(t *testing.T) {
	silent := networktest.Silent(t, "127.0.0.1")
	why := errors.New("the pod was removed")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	_, err := newProber(t).Probe(ctx, target(silent.Addr(), "/"))
	require.ErrorIs(t, err, why)
	_, err = newProber(t).Probe(ctx, target(silent.Addr(), "/"))
	require.ErrorIs(t, err, why)

	late, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	got, err := newProber(t).Probe(late, target(silent.Addr(), "/"))
	require.NoError(t, err)
	require.Equal(t, probe.Failure, got.Verdict)
}

// slow is a connection whose Close takes time.
type slow struct {
	net.Conn
	ended *atomic.Bool
}

func (s slow) Close() error {
	time.Sleep(20 * time.Millisecond)
	defer s.ended.Store(true)
	return s.Conn.Close()
}

// All connections are closed when Probe returns.
func TestWaitsForTheEnd(t *testing.T) {
	s := serve(t, "127.0.0.1", false, func(http.ResponseWriter, *http.Request) {})
	var ended atomic.Bool
	p, err := New(Config{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return slow{conn, &ended}, err
	}})
	require.NoError(t, err)
	got, err := p.Probe(t.Context(), s.target("/"))
	require.NoError(t, err)
	require.Equal(t, probe.Success, got.Verdict)
	require.True(t, ended.Load())
}

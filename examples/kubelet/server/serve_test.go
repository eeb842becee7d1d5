package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/memnet"
)

// way is one of the two functions that serve, with its documented limits.
type way struct {
	serve  func(context.Context, net.Listener, http.Handler) error
	client func(net.Conn) net.Conn
	// header bounds a handshake, each a request and its response, idle the time between two
	// requests; most is the maximum number of connections.
	header, each, idle time.Duration
	most               int
}

func ways(t *testing.T) map[string]way {
	settings, log := secure(t), slog.New(slog.DiscardHandler)
	return map[string]way{
		"Serve": {
			func(ctx context.Context, l net.Listener, h http.Handler) error { return Serve(ctx, l, h, log) },
			func(conn net.Conn) net.Conn { return conn }, 30 * time.Second, 30 * time.Second, 30 * time.Second, 128,
		},
		"ServeAPI": {
			func(ctx context.Context, l net.Listener, h http.Handler) error {
				return ServeAPI(ctx, l, settings, h, log)
			},
			func(conn net.Conn) net.Conn { return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) }, 10 * time.Second, 15 * time.Second, 90 * time.Second, 1024,
		},
	}
}

// served serves in memory in a bubble. during receives a function that connects.
func (is way) served(t *testing.T, h http.Handler, during func(t *testing.T, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen(0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- is.serve(ctx, l, h) }()
		var conns []net.Conn
		during(t, func() net.Conn {
			conn, err := l.DialContext(t.Context())
			require.NoError(t, err)
			conns = append(conns, conn)
			return is.client(conn)
		})
		cancel()
		require.NoError(t, <-done)
		for _, conn := range conns {
			require.NoError(t, conn.Close())
		}
	})
}

func getRequest(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: n\r\n\r\n" }

func send(t *testing.T, conn net.Conn, path string) {
	t.Helper()
	_, err := io.WriteString(conn, getRequest(path))
	require.NoError(t, err)
}

func readResponse(t *testing.T, conn net.Conn) {
	t.Helper()
	send(t, conn, "/healthz")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "ok", string(body))
}

// cut reports whether the server has closed a connection. It discards unread data.
func cut(t *testing.T, conn net.Conn) bool {
	t.Helper()
	if secured, ok := conn.(*tls.Conn); ok { // the handshake may not have begun
		conn = secured.NetConn()
	}
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err := io.Copy(io.Discard, conn)
	return err == nil
}

// large returns a source whose list is larger than the buffer of a connection.
func large() fixed {
	pod := v1.Pod{}
	pod.Name = strings.Repeat("x", 128<<10)
	return fixed{pods: []v1.Pod{pod}}
}

// A client that does not read is disconnected after the time limit of a response, and delays no
// other client. TLS takes 5 s more, for its closing message.
func TestClientThatNeverReads(t *testing.T) {
	for name, is := range ways(t) {
		t.Run(name, func(t *testing.T) {
			gaveUp := make(chan bool, 1)
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/healthz" {
					_, _ = io.WriteString(w, "ok")
					return
				}
				_, _ = w.Write(make([]byte, 1<<20)) // more than the connection buffers
				gaveUp <- true
			})
			is.served(t, h, func(t *testing.T, dial func() net.Conn) {
				deaf := dial()
				send(t, deaf, "/large")
				time.Sleep(is.each - time.Second)
				readResponse(t, dial())
				require.Empty(t, gaveUp)
				time.Sleep(6 * time.Second)
				synctest.Wait()
				require.Len(t, gaveUp, 1, "before the first read")
				require.True(t, cut(t, deaf))
			})
		})
	}
}

// An idle connection is closed in time.
func TestIdleConnectionsEnd(t *testing.T) {
	for name, is := range ways(t) {
		for what, c := range map[string]struct {
			begin func(*testing.T, net.Conn)
			limit time.Duration
		}{
			"at first":        {func(*testing.T, net.Conn) {}, is.header},
			"after an answer": {readResponse, is.idle},
			"within a body": {func(t *testing.T, conn net.Conn) {
				_, err := io.WriteString(conn, "POST /body HTTP/1.1\r\nHost: n\r\nContent-Length: 9\r\n\r\n{")
				require.NoError(t, err)
			}, is.each},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				h := ReadOnly(fixed{}, Measures{}) // without the longer limits of NewAPI
				is.served(t, h, func(t *testing.T, dial func() net.Conn) {
					conn := dial()
					c.begin(t, conn)
					began := time.Now()
					require.NoError(t, conn.SetReadDeadline(began.Add(24*time.Hour)))
					_, _ = io.Copy(io.Discard, conn)
					require.Equal(t, c.limit, time.Since(began))
				})
			})
		}
	}
}

// However many connections others have open, a new one is served at once.
func TestManyConnections(t *testing.T) {
	all := ways(t)
	for _, c := range []struct {
		way, what string
		begin     func(*testing.T, net.Conn)
	}{
		{"Serve", "silent", func(*testing.T, net.Conn) {}},
		{"Serve", "half a request", func(t *testing.T, c net.Conn) { _, err := io.WriteString(c, "GET /pods"); require.NoError(t, err) }},
		{"Serve", "idle after one", readResponse},
		{"Serve", "never read", func(t *testing.T, c net.Conn) { send(t, c, "/pods") }},
		{"Serve", "closed by itself", func(t *testing.T, c net.Conn) { require.NoError(t, c.Close()) }},
		{"ServeAPI", "silent", func(*testing.T, net.Conn) {}},
		{"ServeAPI", "half a handshake", func(t *testing.T, c net.Conn) {
			_, err := io.WriteString(c.(*tls.Conn).NetConn(), "\x16\x03\x01")
			require.NoError(t, err)
		}},
	} {
		t.Run(c.way+", "+c.what, func(t *testing.T) {
			is := all[c.way]
			is.served(t, ReadOnly(large(), Measures{}), func(t *testing.T, dial func() net.Conn) {
				begun, conns := time.Now(), make([]net.Conn, is.most+100)
				for i := range conns {
					conns[i] = dial()
					c.begin(t, conns[i])
					synctest.Wait()
				}
				good := dial()
				readResponse(t, good)
				readResponse(t, good)
				require.Equal(t, begun, time.Now(), "no wait for a deadline")
				if c.what == "closed by itself" {
					return
				}
				open := 0
				for _, conn := range conns {
					if !cut(t, conn) {
						open++
					}
				}
				require.Equal(t, is.most-1, open)
			})
		})
	}
}

// A client that reads slowly keeps its response while idle connections arrive.
func TestIdleConnectionsCloseFirst(t *testing.T) {
	for name, is := range ways(t) {
		t.Run(name, func(t *testing.T) {
			h := withUser("jane", api(t, func(c *APIConfig) { c.Source = large() }))
			is.served(t, h, func(t *testing.T, dial func() net.Conn) {
				slow := dial()
				send(t, slow, "/pods")
				for range is.most + 100 {
					time.Sleep(time.Millisecond)
					dial()
					synctest.Wait()
				}
				resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Greater(t, len(body), 128<<10)
			})
		})
	}
}

package server

import (
	"bufio"
	"context"
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

// served serves a source in a bubble, in memory, and gives what dials it.
func served(t *testing.T, s Source, during func(t *testing.T, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen(0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, l, ReadOnly(s, Measures{}), slog.New(slog.DiscardHandler)) }()
		var conns []net.Conn
		during(t, func() net.Conn {
			conn, err := l.DialContext(t.Context())
			require.NoError(t, err)
			conns = append(conns, conn)
			return conn
		})
		cancel()
		require.NoError(t, <-done)
		for _, conn := range conns {
			require.NoError(t, conn.Close())
		}
	})
}

func ask(t *testing.T, conn net.Conn, path string) {
	t.Helper()
	_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: n\r\n\r\n")
	require.NoError(t, err)
}

// answered asks for the health and reads the answer.
func answered(t *testing.T, conn net.Conn) {
	t.Helper()
	ask(t, conn, "/healthz")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "ok", string(body))
}

// cut tells whether the server has closed a connection; what it had said is thrown away.
func cut(t *testing.T, conn net.Conn) bool {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err := io.Copy(io.Discard, conn)
	return err == nil
}

// large is a source whose list does not fit into the buffer of a connection.
func large() fixed {
	pod := v1.Pod{}
	pod.Name = strings.Repeat("x", 128<<10)
	return fixed{pods: []v1.Pod{pod}}
}

func TestClientThatNeverReads(t *testing.T) {
	served(t, large(), func(t *testing.T, dial func() net.Conn) {
		deaf := dial()
		ask(t, deaf, "/pods")
		time.Sleep(quick - time.Second)
		answered(t, dial())
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, cut(t, deaf))
	})
}

func TestIdleConnectionsEnd(t *testing.T) {
	served(t, fixed{}, func(t *testing.T, dial func() net.Conn) {
		silent, once := dial(), dial()
		answered(t, once)
		time.Sleep(quick + time.Second)
		synctest.Wait()
		require.True(t, cut(t, silent))
		require.True(t, cut(t, once))
	})
}

// However many connections others have open, the next one gets its answer at once.
func TestThousandConnections(t *testing.T) {
	for what, begin := range map[string]func(*testing.T, net.Conn){
		"silent":           func(*testing.T, net.Conn) {},
		"half a request":   func(t *testing.T, c net.Conn) { _, err := io.WriteString(c, "GET /pods"); require.NoError(t, err) },
		"idle after one":   answered,
		"never read":       func(t *testing.T, c net.Conn) { ask(t, c, "/pods") },
		"closed by itself": func(t *testing.T, c net.Conn) { require.NoError(t, c.Close()) },
	} {
		t.Run(what, func(t *testing.T) {
			served(t, large(), func(t *testing.T, dial func() net.Conn) {
				begun, conns := time.Now(), make([]net.Conn, 1000)
				for i := range conns {
					conns[i] = dial()
					begin(t, conns[i])
					synctest.Wait()
				}
				good := dial()
				answered(t, good)
				answered(t, good)
				require.Equal(t, begun, time.Now(), "nobody waits for a deadline")
				if what == "closed by itself" {
					return
				}
				open := 0
				for _, conn := range conns {
					if !cut(t, conn) {
						open++
					}
				}
				require.Equal(t, maxConnections-1, open)
			})
		})
	}
}

// A client that takes its time to read keeps its answer while idle ones come.
func TestIdleOnesMakeRoomFirst(t *testing.T) {
	served(t, large(), func(t *testing.T, dial func() net.Conn) {
		slow := dial()
		ask(t, slow, "/pods")
		for range 1000 {
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
}

package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serving runs ServeAPI until the test ends, and returns a function that connects to it.
func serving(t *testing.T, h http.Handler) (dial func() net.Conn, stop func()) {
	t.Helper()
	settings := secure(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- ServeAPI(ctx, l, settings, h, slog.New(slog.DiscardHandler))
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

// The end of the server ends sessions through their context, and waits for them.
func TestEndOfTheServerEndsSessions(t *testing.T) {
	ended := false
	dial, stop := serving(t, api(t, func(c *APIConfig) {
		c.Containers = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "taken over\n")
			<-r.Context().Done()
			ended = true
		})
	}))
	conn := dial()
	send(t, conn, "/attach/ns/p/c?output=1")
	r := bufio.NewReader(conn)
	said, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "taken over\n", said)
	stop()
	require.True(t, ended)
	_, err = r.ReadByte()
	require.Error(t, err)
}

// A connection without TLS ends without effect on others.
func TestConnectionWithoutTLS(t *testing.T) {
	dial, _ := serving(t, api(t, nil))
	good := dial()
	for _, garbage := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff", "\x00", "SSH-2.0-x\r\n"} {
		conn, err := net.Dial("tcp", good.RemoteAddr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, garbage)
		require.NoError(t, err)
		defer conn.Close()
	}
	readResponse(t, good)
}

package streams_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/streams"
)

// Connections of misbehaving clients are closed and leak no resources.
func TestHostileClients(t *testing.T) {
	upgrade := "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
	version := "X-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
	for name, c := range map[string]struct {
		header string
		code   int
	}{
		"no upgrade":          {"", 400},
		"no protocol":         {upgrade + "X-Stream-Protocol-Version: v9\r\n", 403},
		"no streams":          {upgrade + version, 101},
		"garbage for frames":  {upgrade + version + "\r\n" + strings.Repeat("\x80garbage", 100), 101},
		"an ill websocket":    {"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 7\r\n", 405},
		"no end of a request": {strings.Repeat("X-Long: x\r\n", 10), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t, fake.Config{Exec: commands})
				id := n.start(t, nil)
				response, err := n.Exec(t.Context(), &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"sleep"}, Stdout: true})
				require.NoError(t, err)
				target, err := url.Parse(response.Url)
				require.NoError(t, err)
				conn, err := n.client.Dial(t.Context(), "tcp", target.Host)
				require.NoError(t, err)
				defer conn.Close()
				end := "\r\n"
				if c.code == 0 {
					end = ""
				}
				_, err = io.WriteString(conn, "POST "+target.Path+" HTTP/1.1\r\nHost: localhost\r\n"+c.header+end)
				require.NoError(t, err)
				begin := time.Now()
				if c.code != 0 {
					answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
					require.NoError(t, err)
					require.Equal(t, c.code, answer.StatusCode)
				}
				if c.code == 101 || c.code == 0 { // the server closes the connection in the end
					_, _ = io.Copy(io.Discard, conn)
					require.LessOrEqual(t, time.Since(begin), 40*time.Second)
				}
			})
		})
	}
}

func TestServerConfig(t *testing.T) {
	_, err := streams.NewServer(streams.Config{})
	require.ErrorContains(t, err, "Listener")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, err = streams.NewServer(streams.Config{Listener: listener, IdleTimeout: -1})
	require.ErrorContains(t, err, "IdleTimeout")
	base := &url.URL{Scheme: "https", Host: "example.com:1", Path: "/cri/"}
	server, err := streams.NewServer(streams.Config{Listener: listener, BaseURL: base})
	require.NoError(t, err)
	response, err := server.GetExec(&runtimeapi.ExecRequest{ContainerId: "c", Cmd: []string{"x"}, Stdout: true})
	require.NoError(t, err)
	require.Regexp(t, "^https://example.com:1/cri/exec/[A-Za-z0-9_-]+$", response.Url)

	rt, err := fake.New(fake.Config{})
	require.NoError(t, err)
	defer rt.Close()
	require.NoError(t, listener.Close())
	require.ErrorIs(t, server.Run(t.Context(), rt), net.ErrClosed)
	require.ErrorContains(t, server.Run(t.Context(), rt), "before")
}

func TestClientRefuses(t *testing.T) {
	failing := errors.New("no way there")
	client := &streams.Client{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, failing }}
	_, err := client.Exec(t.Context(), "http://localhost/exec/x", streams.Session{Stdout: io.Discard})
	require.ErrorIs(t, err, failing)
	for _, s := range []streams.Session{{}, {TTY: true, Stdout: io.Discard, Stderr: io.Discard}} {
		_, err = client.Exec(t.Context(), "http://localhost/exec/x", s)
		require.Error(t, err)
		require.NotErrorIs(t, err, failing)
	}
	for _, bad := range []string{"ftp://localhost/x", ":", ""} {
		require.Error(t, client.Attach(t.Context(), bad, streams.Session{Stdout: io.Discard}))
		_, err = client.PortForward(t.Context(), bad, 80)
		require.NotErrorIs(t, err, failing)
	}
}

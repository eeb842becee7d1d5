package streams_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/streams"
)

// Clients that come while the server ends are seen off before Run returns.
func TestClientsComeWhileTheServerEnds(t *testing.T) {
	for range 60 {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(t, fake.Config{Exec: fake.Always(fake.Exit(0))})
			id := n.start(t, nil)
			var clients sync.WaitGroup
			begin := make(chan struct{})
			for c := range 6 {
				response, err := n.Exec(t.Context(), &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"x"}, Stdout: true})
				require.NoError(t, err)
				clients.Go(func() {
					client := *n.client
					client.Protocol = streams.Protocol(c % 2)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					<-begin
					var out bytes.Buffer
					_, _ = client.Exec(ctx, response.Url, streams.Session{Stdout: &out})
				})
			}
			clients.Go(func() {
				<-begin
				n.stop()
			})
			close(begin)
			clients.Wait()
		})
	}
}

// A connection that has no session ends, also that of a client which never reads.
func TestConnectionsWithoutASession(t *testing.T) {
	const request = "GET /nothing HTTP/1.1\r\nHost: n\r\n\r\n"
	for name, test := range map[string]func(t *testing.T, conn net.Conn){
		"idle": func(t *testing.T, conn net.Conn) {
			_, err := io.WriteString(conn, request)
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		},
		"never reads": func(_ *testing.T, conn net.Conn) {
			for err := error(nil); err == nil; { // until it is cut
				_, err = io.WriteString(conn, request)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(t, fake.Config{})
				conn, err := n.client.Dial(t.Context(), "", "")
				require.NoError(t, err)
				defer conn.Close()
				test(t, conn)
				require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
				_, err = io.Copy(io.Discard, conn)
				require.NoError(t, err, "it is closed")
			})
		})
	}
}

package streams_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/streams"
)

// Clients that connect while the server ends are disconnected before Run returns.
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

// A connection without a session ends, even if its client never reads.
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
			for err := error(nil); err == nil; { // until it is closed
				_, err = io.WriteString(conn, request)
			}
		},
		"never sends the body": func(t *testing.T, conn net.Conn) {
			_, err := io.WriteString(conn, "POST /nothing HTTP/1.1\r\nHost: n\r\nContent-Length: 9\r\n\r\nb")
			require.NoError(t, err)
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

// An idle session ends after IdleTimeout.
func TestSessionsOverWhichNothingGoes(t *testing.T) {
	inBubbles(t, fake.Config{Exec: commands}, func(t *testing.T, n *fakeNode) {
		id := n.start(t, nil)
		begin := time.Now()
		_, err := n.exec(t.Context(), t, id, streams.Session{Stdout: io.Discard}, "sleep")
		require.Error(t, err)
		require.WithinDuration(t, begin.Add(4*time.Hour), time.Now(), time.Minute)
	})
}

// A session whose client does not read endless output ends, too.
func TestSessionsThatAreNotRead(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	flood := func(_ context.Context, p *fake.Process) int {
		close(begun)
		for err := error(nil); err == nil; {
			_, err = p.Stdout.Write(make([]byte, 1000))
		}
		close(ended)
		return 1
	}
	inBubbles(t, fake.Config{Exec: fake.Always(flood)}, func(t *testing.T, n *fakeNode) {
		begun, ended = make(chan struct{}), make(chan struct{})
		id := n.start(t, nil)
		dial := n.client.Dial
		n.client.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return &deaf{Conn: conn, from: begun, closed: make(chan struct{})}, err
		}
		ctx, cancel := context.WithCancel(t.Context())
		var client sync.WaitGroup
		defer client.Wait()
		defer cancel()
		begin := time.Now()
		client.Go(func() { _, _ = n.exec(ctx, t, id, streams.Session{Stdout: io.Discard}, "flood") })
		<-ended
		require.WithinDuration(t, begin.Add(4*time.Hour), time.Now(), time.Minute)
	})
}

// deaf is a connection that reads no more data after a channel is closed.
type deaf struct {
	net.Conn
	from, closed chan struct{}
	once         sync.Once
}

func (d *deaf) Read(p []byte) (int, error) {
	select {
	case <-d.from:
		<-d.closed
		return 0, net.ErrClosed
	default:
		return d.Conn.Read(p)
	}
}

func (d *deaf) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Conn.Close()
}

// Above MaxConnections the oldest connection without a session is closed. Sessions are not closed:
// if all connections have sessions, new ones are refused.
func TestTooManyConnections(t *testing.T) {
	inBubbles(t, fake.Config{Exec: commands}, func(t *testing.T, n *fakeNode) {
		id := n.start(t, nil)
		connect := func() net.Conn {
			conn, err := n.client.Dial(t.Context(), "", "")
			require.NoError(t, err)
			synctest.Wait()
			time.Sleep(time.Millisecond)
			return conn
		}
		closed := func(conn net.Conn) bool {
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Millisecond)))
			_, err := conn.Read(make([]byte, 1))
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
		var silent []net.Conn
		for range maxConnections {
			silent = append(silent, connect())
			defer silent[len(silent)-1].Close()
		}
		require.False(t, closed(silent[0]))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var sessions sync.WaitGroup
		defer sessions.Wait()
		defer cancel()
		for i := range maxConnections {
			sessions.Go(func() { _, _ = n.exec(ctx, t, id, streams.Session{Stdout: io.Discard}, "sleep") })
			synctest.Wait()
			time.Sleep(time.Millisecond)
			require.True(t, closed(silent[i]))
		}
		_, err := n.exec(t.Context(), t, id, streams.Session{Stdout: io.Discard}, "both")
		require.Error(t, err, "turned away")
		cancel()
		sessions.Wait()
		synctest.Wait()
		_, err = n.exec(t.Context(), t, id, streams.Session{Stdout: io.Discard}, "both")
		require.NoError(t, err)
	})
}

package memnet

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func connect(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l := Listen(10)
	var accepted sync.WaitGroup
	accepted.Go(func() { server, _ = l.Accept() })
	client, err := l.DialContext(t.Context())
	require.NoError(t, err)
	accepted.Wait()
	require.NotNil(t, server)
	return client, server
}

// ends runs a call on a connection and returns a pointer to its error, which is nil until the
// call returns.
func ends(call func() (int, error)) *error {
	result := new(error)
	go func() {
		_, *result = call()
		if *result == nil {
			*result = io.ErrNoProgress // distinguishes success from "not yet"
		}
	}()
	return result
}

func TestBothDirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connect(t)
		for _, ends := range [][2]net.Conn{{client, server}, {server, client}} {
			sent := bytes.Repeat([]byte("0123456789abc"), 1000) // more than the buffer
			var writing sync.WaitGroup
			writing.Go(func() {
				n, err := ends[0].Write(sent)
				require.NoError(t, err)
				require.Equal(t, len(sent), n)
			})
			got := make([]byte, len(sent))
			_, err := io.ReadFull(ends[1], got)
			require.NoError(t, err)
			require.Equal(t, sent, got)
			writing.Wait()
		}
	})
}

// Close ends the waits of its own end; the peer reads the remaining data.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connect(t)
		_, err := client.Write([]byte("last"))
		require.NoError(t, err)
		own := ends(func() (int, error) { return client.Read(make([]byte, 1)) })
		synctest.Wait()
		require.NoError(t, *own, "no data")
		require.NoError(t, client.Close())
		synctest.Wait()
		require.ErrorIs(t, *own, net.ErrClosed)
		_, err = client.Write(nil)
		require.ErrorIs(t, err, net.ErrClosed)
		got, err := io.ReadAll(server)
		require.NoError(t, err)
		require.Equal(t, "last", string(got))
		_, err = server.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
	})
}

// A write that waits for buffer space ends when the reader closes.
func TestReaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connect(t)
		writing := ends(func() (int, error) { return client.Write(make([]byte, 11)) })
		synctest.Wait()
		require.NoError(t, *writing, "no room")
		require.NoError(t, server.Close())
		synctest.Wait()
		require.ErrorIs(t, *writing, syscall.EPIPE)
	})
}

func TestDeadlines(t *testing.T) {
	read := func(c net.Conn) func() (int, error) {
		return func() (int, error) { return c.Read(make([]byte, 1)) }
	}
	write := func(c net.Conn) func() (int, error) {
		return func() (int, error) { return c.Write(make([]byte, 11)) }
	}
	for name, c := range map[string]struct {
		set  func(net.Conn, time.Time) error
		call func(net.Conn) func() (int, error)
	}{
		"read":       {net.Conn.SetReadDeadline, read},
		"write":      {net.Conn.SetWriteDeadline, write},
		"both read":  {net.Conn.SetDeadline, read},
		"both write": {net.Conn.SetDeadline, write},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, _ := connect(t)
				begin := time.Now()
				require.NoError(t, c.set(client, begin.Add(time.Second)))
				require.NoError(t, c.set(client, begin.Add(3*time.Second))) // replaces the first
				_, err := c.call(client)()
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				var netErr net.Error
				require.ErrorAs(t, err, &netErr)
				require.True(t, netErr.Timeout())
				require.Equal(t, 3*time.Second, time.Since(begin))

				require.NoError(t, c.set(client, time.Time{})) // no deadline
				waiting := ends(c.call(client))
				time.Sleep(time.Hour)
				require.NoError(t, *waiting)
				require.NoError(t, c.set(client, begin)) // in the past: ends the waiting call
				synctest.Wait()
				require.ErrorIs(t, *waiting, os.ErrDeadlineExceeded)
			})
		})
	}
}

func TestListenerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Listen(0)
		accepting := ends(func() (int, error) { _, err := l.Accept(); return 0, err })
		synctest.Wait()
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		synctest.Wait()
		require.ErrorIs(t, *accepting, net.ErrClosed)
		_, err := l.DialContext(t.Context())
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestDialWithoutAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := Listen(0).DialContext(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// Many connections in parallel, on many threads, with deadlines in the past. Other listeners
// crash the race detector in this case.
func TestParallelConnections(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			l := Listen(0)
			var work sync.WaitGroup
			for range 4 {
				work.Go(func() {
					for range 50 {
						conn, err := l.DialContext(t.Context())
						require.NoError(t, err)
						require.NoError(t, conn.SetDeadline(time.Unix(1, 0)))
						_, err = conn.Read(make([]byte, 1))
						require.ErrorIs(t, err, os.ErrDeadlineExceeded)
						require.NoError(t, conn.Close())
					}
				})
				work.Go(func() {
					for range 50 {
						conn, err := l.Accept()
						require.NoError(t, err)
						_, err = conn.Read(make([]byte, 1))
						require.ErrorIs(t, err, io.EOF)
						require.NoError(t, conn.Close())
					}
				})
			}
			work.Wait()
		})
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

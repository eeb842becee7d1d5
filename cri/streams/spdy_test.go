package streams

import (
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/podwright/podwright/internal/memnet"
)

// A session that ended while a stream was being opened leaks no goroutine that waits for the
// stream; the bubble would not end.
func TestStreamAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := memnet.Listen(0)
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				_ = conn.Close()
			}
		}()
		conn, err := listener.DialContext(t.Context())
		require.NoError(t, err)
		client, err := spdy.NewClientConnection(conn)
		require.NoError(t, err)
		session := &spdySession{Connection: client, conn: conn}
		synctest.Wait()
		_, err = createStream(session, http.Header{})
		require.ErrorIs(t, err, ErrLost)
		_, err = session.CreateStream(http.Header{}) // as if it had ended a moment later
		require.Error(t, err)
		session.end()
		_, err = conn.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

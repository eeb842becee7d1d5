package streams

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/podwright/podwright/internal/memnet"
)

// No stream is opened in a session that has ended: it would never be closed, and the
// bubble would not end.
func TestNoStreamAfterTheEnd(t *testing.T) {
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
		session, err := spdy.NewClientConnection(conn)
		require.NoError(t, err)
		synctest.Wait()
		_, err = createStream(session, http.Header{})
		require.ErrorIs(t, err, ErrLost)
		closeSPDY(session)
	})
}

package fake

import (
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// connections are the open connections of the runtime's servers. They can be cut while server and
// listener stay.
type connections struct {
	mu   sync.Mutex
	open map[*connection]struct{}
}

func newConnections() *connections {
	return &connections{open: map[*connection]struct{}{}}
}

func (c *connections) cut() {
	c.mu.Lock()
	open := c.open
	c.open = map[*connection]struct{}{}
	c.mu.Unlock()
	for conn := range open {
		// Its peer may have closed it already.
		_ = conn.Conn.Close()
	}
}

// connection removes itself from connections when it is closed.
type connection struct {
	net.Conn
	of *connections
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// serverCredentials are plaintext gRPC credentials that refuse connections while the runtime is
// down. A server first sees a connection in the handshake, which is otherwise empty for plaintext.
type serverCredentials struct {
	credentials.TransportCredentials
	rt *Runtime
}

func newServerCredentials(rt *Runtime) serverCredentials {
	return serverCredentials{TransportCredentials: insecure.NewCredentials(), rt: rt}
}

// ServerHandshake accepts or refuses a connection.
func (t serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn := &connection{Conn: raw, of: t.rt.conns}
	// With both locks, either Stop sees the connection, or the connection sees the stop.
	t.rt.mu.RLock()
	defer t.rt.mu.RUnlock()
	if err := t.rt.unavailable(); err != nil {
		return nil, nil, errors.Join(err, raw.Close())
	}
	_, info, err := t.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	t.rt.conns.mu.Lock()
	defer t.rt.conns.mu.Unlock()
	t.rt.conns.open[conn] = struct{}{}
	return conn, info, nil
}

func (t serverCredentials) Clone() credentials.TransportCredentials {
	return serverCredentials{TransportCredentials: t.TransportCredentials.Clone(), rt: t.rt}
}

package fake

import (
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// connections are those that servers of the runtime have accepted, so that they
// can be cut while server and listener go on.
type connections struct {
	mu   sync.Mutex
	open map[*connection]struct{}
}

func newConnections() *connections {
	return &connections{open: map[*connection]struct{}{}}
}

// cut closes all.
func (c *connections) cut() {
	c.mu.Lock()
	open := c.open
	c.open = map[*connection]struct{}{}
	c.mu.Unlock()
	for conn := range open {
		// It may have been closed by its peer, which is as good.
		_ = conn.Conn.Close()
	}
}

// connection is one that forgets itself when it is closed.
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

// serverCredentials is the server side of plaintext gRPC that lets nobody in while the
// runtime is down: the handshake, which plaintext has none of, is where a server
// first sees a connection.
type serverCredentials struct {
	credentials.TransportCredentials
	rt *Runtime
}

func newServerCredentials(rt *Runtime) serverCredentials {
	return serverCredentials{TransportCredentials: insecure.NewCredentials(), rt: rt}
}

// ServerHandshake takes a connection in, or refuses it.
func (t serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn := &connection{Conn: raw, of: t.rt.conns}
	// Both locks: a connection is either seen by Stop or sees that it is down.
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

// Clone copies it.
func (t serverCredentials) Clone() credentials.TransportCredentials {
	return serverCredentials{TransportCredentials: t.TransportCredentials.Clone(), rt: t.rt}
}

package network

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/probe/internal/networktest"
)

// Close waits for unsent data for at most a second.
func TestConnLinger(t *testing.T) {
	silent := networktest.Silent(t, "127.0.0.1")
	c := &Conns{}
	defer c.Close()
	nc, err := c.Dial(t.Context(), "tcp", silent.Addr().String())
	require.NoError(t, err)
	raw, err := nc.(*conn).Conn.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	var got *unix.Linger
	require.NoError(t, raw.Control(func(fd uintptr) {
		got, err = unix.GetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER)
	}))
	require.NoError(t, err)
	require.Equal(t, &unix.Linger{Onoff: 1, Linger: 1}, got)
	require.Equal(t, 1, networktest.Sockets(t, silent.Addr())[networktest.Established])
	c.Close()
	require.Zero(t, networktest.Sockets(t, silent.Addr())[networktest.Established])
}

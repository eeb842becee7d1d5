// Package networktest checks the sockets and files that tests of probers leave behind, and has
// test servers.
package networktest

import (
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// States of sockets in /proc/net/tcp.
const (
	Established = "01"
	TimeWait    = "06"
	CloseWait   = "08"
)

// Sockets counts, by state, the sockets of this network namespace with the remote port of the
// address to.
func Sockets(t testing.TB, to net.Addr) map[string]int {
	t.Helper()
	port := to.(*net.TCPAddr).Port
	out := map[string]int{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(content)) {
			f := strings.Fields(line)
			if len(f) < 4 || f[0] == "sl" {
				continue
			}
			_, hex, _ := strings.Cut(f[2], ":")
			remote, err := strconv.ParseUint(hex, 16, 16)
			require.NoError(t, err)
			if int(remote) == port {
				out[f[3]]++
			}
		}
	}
	return out
}

// Open returns the number of open files of this process.
func Open(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// Listen listens on a free port of an address. It skips the test on a machine without IPv6.
func Listen(t testing.TB, host string) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil && strings.Contains(host, ":") {
		t.Skipf("no IPv6: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Silent listens on a free port of an address, and accepts connections without a response until
// the client closes them.
func Silent(t testing.TB, host string) net.Listener {
	t.Helper()
	return Serve(t, host, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
}

// Serve listens on a free port of an address, and closes each connection after handle.
func Serve(t testing.TB, host string, handle func(net.Conn)) net.Listener {
	t.Helper()
	l := Listen(t, host)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				handle(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return l
}

// Refusing returns an address without a listener.
func Refusing(t testing.TB, host string) net.Addr {
	t.Helper()
	l := Listen(t, host)
	require.NoError(t, l.Close())
	return l.Addr()
}

// Eventually waits up to a minute until what returns true. The condition should become true much
// earlier.
func Eventually(t testing.TB, what func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !what(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "not in a minute")
	}
}

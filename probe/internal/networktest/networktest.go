// Package networktest looks at what tests of probers leave behind.
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

// States of sockets, as /proc/net/tcp writes them.
const (
	Established = "01"
	TimeWait    = "06"
	CloseWait   = "08"
)

// Sockets counts the sockets of this network namespace that lead to an address of
// this machine, by state. Those that come from there are left out.
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

// Open counts the open files of this process.
func Open(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// Listen listens on a free port of an address, and skips the test where the
// machine does not have it.
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

// Silent listens on a free port of an address, accepts connections and says
// nothing on them until the other side ends them.
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

// Refusing is an address on which nobody listens.
func Refusing(t testing.TB, host string) net.Addr {
	t.Helper()
	l := Listen(t, host)
	require.NoError(t, l.Close())
	return l.Addr()
}

// Eventually waits until what is true, which it must become in far less than a
// minute.
func Eventually(t testing.TB, what func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !what(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "not in a minute")
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A process that exits by itself is started again, but not after stop. The next start appends to
// the log.
func TestAgent(t *testing.T) {
	log, exits := filepath.Join(t.TempDir(), "log"), make(chan error, 1)
	a := &agent{program: "/bin/sh", log: log, args: []string{"-c", "sleep 60 & trap 'kill $!; exit 0' TERM; trap 'kill $!; exit 3' HUP; echo start; wait"}, onExit: func(err error) { exits <- err }}
	a.stop(syscall.SIGTERM) // no effect before the first start
	starts := func(n int) func() bool {
		return func() bool {
			text, _ := os.ReadFile(log)
			return strings.Count(string(text), "start") == n
		}
	}
	require.NoError(t, a.start(t.Context()))
	require.Eventually(t, starts(1), time.Minute, 10*time.Millisecond)
	a.signal(syscall.SIGHUP)
	require.ErrorContains(t, <-exits, "exit status 3")
	require.Eventually(t, starts(2), time.Minute, 10*time.Millisecond)
	a.stop(syscall.SIGTERM)
	require.NoError(t, a.start(t.Context()))
	require.Eventually(t, starts(3), time.Minute, 10*time.Millisecond)
	a.stop(syscall.SIGTERM)
	require.Empty(t, exits)
}

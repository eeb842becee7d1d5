package shutdown_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/examples/kubelet/shutdown"
	"github.com/podwright/podwright/examples/kubelet/shutdown/logindtest"
	syncloopshutdown "github.com/podwright/podwright/syncloop/shutdown"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLogindSignalsAndDelays(t *testing.T) {
	address, stop := logindtest.StartBus(t)
	l := logindtest.Start(t, address, 5*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := shutdown.Logind{Address: address, DropIn: l.DropIn}.Connect(ctx, 3*time.Second)
	require.NoError(t, err)
	require.NoFileExists(t, l.DropIn, "logind's delay is long enough")
	defer s.Close()

	lock, err := s.Lock(ctx)
	require.NoError(t, err)
	given := <-l.Locks
	defer given.R.Close()
	require.NoError(t, given.W.Close())
	l.Say(t, true)
	require.True(t, <-s.Signals())
	down, err := s.GoingDown(ctx)
	require.NoError(t, err)
	require.True(t, down)
	l.Say(t, false)
	require.False(t, <-s.Signals())

	stop() // ends the bus
	_, open := <-s.Signals()
	require.False(t, open)
	require.NoError(t, lock.Close())
	_, err = io.ReadAll(given.R) // returns when all copies of the lock are closed
	require.NoError(t, err)
	_, err = shutdown.Logind{Address: address}.Connect(ctx, time.Second)
	require.ErrorContains(t, err, "D-Bus")
}

func TestLogindDelayIsExtended(t *testing.T) {
	address, _ := logindtest.StartBus(t)
	l := logindtest.Start(t, address, 5*time.Second)
	require.NoError(t, os.MkdirAll(filepath.Dir(l.DropIn), 0o755))
	require.NoError(t, os.WriteFile(l.DropIn, []byte("[Login]\nInhibitDelayMaxSec=7\n"), 0o600))
	s, err := shutdown.Logind{Address: address, DropIn: l.DropIn}.Connect(t.Context(), 29500*time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	data, err := os.ReadFile(l.DropIn)
	require.NoError(t, err)
	require.Contains(t, string(data), "[Login]\nInhibitDelayMaxSec=30\n")

	// logind ignores the file, which already has the right content and is not written again.
	l.Deaf.Store(true)
	require.NoError(t, os.WriteFile(l.DropIn, bytes.ReplaceAll(data, []byte("=30"), []byte("=60")), 0o600))
	ages := time.Unix(1, 0)
	require.NoError(t, os.Chtimes(l.DropIn, ages, ages))
	_, err = shutdown.Logind{Address: address, DropIn: l.DropIn}.Connect(t.Context(), time.Minute)
	require.ErrorIs(t, err, syncloopshutdown.ErrDelayTooShort)
	info, err := os.Stat(l.DropIn)
	require.NoError(t, err)
	require.Equal(t, ages, info.ModTime())
}

// A session outlives the context of Connect, and ends when logind leaves the bus.
func TestLogindLeavesTheBus(t *testing.T) {
	address, _ := logindtest.StartBus(t)
	l := logindtest.Start(t, address, 5*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := shutdown.Logind{Address: address, DropIn: l.DropIn}.Connect(ctx, time.Second)
	require.NoError(t, err)
	cancel()
	l.Say(t, true)
	require.True(t, <-s.Signals())
	require.NoError(t, l.Leave())
	_, open := <-s.Signals()
	require.False(t, open)
	require.NoError(t, s.Close())
	_, err = shutdown.Logind{Address: address, DropIn: l.DropIn}.Connect(t.Context(), time.Second)
	require.ErrorContains(t, err, "logind")
}

func TestHangingBus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus")
	bus, err := net.Listen("unix", path) // accepts connections and never replies
	require.NoError(t, err)
	defer bus.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = shutdown.Logind{Address: "unix:path=" + path}.Connect(ctx, time.Second)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "D-Bus")
}

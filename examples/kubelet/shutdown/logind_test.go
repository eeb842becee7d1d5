package shutdown_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/examples/kubelet/shutdown"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const busConfig = `<busconfig><type>session</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`

// startBus runs a real dbus-daemon.
func startBus(t *testing.T) (address string, stop func()) {
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("dbus-daemon is not installed (Debian: dbus-daemon)")
	}
	dir, err := os.MkdirTemp("", "bus")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := filepath.Join(dir, "bus.conf")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, busConfig, filepath.Join(dir, "bus")), 0o600))
	cmd := exec.Command(daemon, "--config-file="+config, "--nofork", "--print-address=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var once sync.Once
	stop = func() { once.Do(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) }
	t.Cleanup(stop)
	return strings.TrimSpace(line), stop
}

// pipe is a lock: the agent holds a copy of w, which r sees the end of.
type pipe struct{ r, w *os.File }

// logind is a small login manager: it gives out locks, and waits for as long as its
// drop-in file says once it is told to read it.
type logind struct {
	conn   *dbus.Conn
	props  *prop.Properties
	dropIn string
	deaf   atomic.Bool // does not read the file

	locks chan pipe
}

func startLogind(t *testing.T, address string) *logind {
	conn, err := dbus.Connect(address)
	require.NoError(t, err)
	l := &logind{conn: conn, dropIn: filepath.Join(t.TempDir(), "conf.d", "99-kubelet.conf"), locks: make(chan pipe, 8)}
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.Export(l, "/org/freedesktop/login1", "org.freedesktop.login1.Manager"))
	require.NoError(t, conn.Export(systemd{l}, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"))
	l.props, err = prop.Export(conn, "/org/freedesktop/login1", prop.Map{"org.freedesktop.login1.Manager": {
		"InhibitDelayMaxUSec":  {Value: uint64(5_000_000), Emit: prop.EmitFalse},
		"PreparingForShutdown": {Value: false, Emit: prop.EmitFalse},
	}})
	require.NoError(t, err)
	for _, name := range []string{"org.freedesktop.login1", "org.freedesktop.systemd1"} {
		_, err := conn.RequestName(name, dbus.NameFlagDoNotQueue)
		require.NoError(t, err)
	}
	return l
}

// Inhibit hands out the end of a pipe: it is closed when the lock is.
func (l *logind) Inhibit(what, _, _, mode string) (dbus.UnixFD, *dbus.Error) {
	if what != "shutdown" || mode != "delay" {
		return 0, dbus.MakeFailedError(fmt.Errorf("%s, %s", what, mode))
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	fd := dbus.UnixFD(w.Fd())
	l.locks <- pipe{r, w}
	return fd, nil
}

func (l *logind) say(t *testing.T, down bool) {
	l.props.SetMust("org.freedesktop.login1.Manager", "PreparingForShutdown", down)
	require.NoError(t, l.conn.Emit("/org/freedesktop/login1", "org.freedesktop.login1.Manager.PrepareForShutdown", down))
}

type systemd struct{ l *logind }

func (s systemd) KillUnit(unit, _ string, signal int32) *dbus.Error {
	if unit != "systemd-logind.service" || signal != 1 || s.l.deaf.Load() {
		return nil
	}
	data, err := os.ReadFile(s.l.dropIn)
	if err != nil {
		return dbus.MakeFailedError(err)
	}
	var seconds uint64
	_, value, _ := strings.Cut(string(data), "InhibitDelayMaxSec=")
	if _, err := fmt.Sscan(value, &seconds); err != nil {
		return dbus.MakeFailedError(err)
	}
	s.l.props.SetMust("org.freedesktop.login1.Manager", "InhibitDelayMaxUSec", seconds*1_000_000)
	return nil
}

func TestLogindTellsAndWaits(t *testing.T) {
	address, stop := startBus(t)
	l := startLogind(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := shutdown.Logind{Address: address, DropIn: l.dropIn}.Connect(ctx, 3*time.Second)
	require.NoError(t, err)
	require.NoFileExists(t, l.dropIn, "logind waits for long enough")
	defer s.Close()

	lock, err := s.Lock(ctx)
	require.NoError(t, err)
	given := <-l.locks
	defer given.r.Close()
	require.NoError(t, given.w.Close())
	l.say(t, true)
	require.True(t, <-s.Signals())
	down, err := s.GoingDown(ctx)
	require.NoError(t, err)
	require.True(t, down)
	l.say(t, false)
	require.False(t, <-s.Signals())

	stop() // the bus goes away
	_, open := <-s.Signals()
	require.False(t, open)
	require.NoError(t, lock.Close())
	_, err = io.ReadAll(given.r) // ends when no one holds the lock
	require.NoError(t, err)
	_, err = shutdown.Logind{Address: address}.Connect(ctx, time.Second)
	require.ErrorContains(t, err, "D-Bus")
}

func TestLogindIsAskedToWaitLonger(t *testing.T) {
	address, _ := startBus(t)
	l := startLogind(t, address)
	s, err := shutdown.Logind{Address: address, DropIn: l.dropIn}.Connect(t.Context(), 29500*time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	data, err := os.ReadFile(l.dropIn)
	require.NoError(t, err)
	require.Contains(t, string(data), "[Login]\nInhibitDelayMaxSec=30\n")

	l.deaf.Store(true)
	_, err = shutdown.Logind{Address: address, DropIn: l.dropIn}.Connect(t.Context(), time.Minute)
	require.ErrorIs(t, err, shutdown.ErrDelayTooShort)
}

func TestLogindGoesAwayWithoutTheBus(t *testing.T) {
	address, _ := startBus(t)
	l := startLogind(t, address)
	s, err := shutdown.Logind{Address: address, DropIn: l.dropIn}.Connect(t.Context(), time.Second)
	require.NoError(t, err)
	require.NoError(t, l.conn.Close())
	_, open := <-s.Signals()
	require.False(t, open)
	require.NoError(t, s.Close())
	_, err = shutdown.Logind{Address: address, DropIn: l.dropIn}.Connect(t.Context(), time.Second)
	require.ErrorContains(t, err, "logind")
}

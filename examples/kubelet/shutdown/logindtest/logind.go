// Package logindtest provides a D-Bus daemon and a small fake of logind, for tests that cannot shut
// down their machine.
package logindtest

import (
	"bufio"
	"fmt"
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

	_ "github.com/podwright/podwright/examples/tools/testbed/tb" // the testbed installs dbus-daemon
)

const busConfig = `<busconfig><type>session</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`

// StartBus runs a real dbus-daemon until the test ends or stop is called. Without dbus-daemon it
// skips the test, or fails it if PODWRIGHT_REQUIRE_CRI is set.
func StartBus(t testing.TB) (address string, stop func()) {
	t.Helper()
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		require.NotEqual(t, "1", os.Getenv("PODWRIGHT_REQUIRE_CRI"), "needs dbus-daemon (Debian: dbus-daemon)")
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

// Lock is an inhibitor lock. The agent has a copy of W; reads from R end when all copies are
// closed.
type Lock struct{ R, W *os.File }

// Logind is a fake of logind. It hands out inhibitor locks, and takes its delay from a drop-in file
// when it is reloaded.
type Logind struct {
	// DropIn is the drop-in file. Deaf makes Logind ignore reloads.
	DropIn string
	Deaf   atomic.Bool
	// Locks receives the locks that were handed out.
	Locks chan Lock

	conn  *dbus.Conn
	props *prop.Properties
}

// Start runs a Logind on a bus until the test ends. Its initial delay is max.
func Start(t testing.TB, address string, max time.Duration) *Logind {
	t.Helper()
	conn, err := dbus.Connect(address)
	require.NoError(t, err)
	l := &Logind{conn: conn, DropIn: filepath.Join(t.TempDir(), "conf.d", "99-kubelet.conf"), Locks: make(chan Lock, 8)}
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.Export(l, "/org/freedesktop/login1", "org.freedesktop.login1.Manager"))
	require.NoError(t, conn.Export(systemd{l}, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"))
	l.props, err = prop.Export(conn, "/org/freedesktop/login1", prop.Map{"org.freedesktop.login1.Manager": {
		"InhibitDelayMaxUSec":  {Value: uint64(max.Microseconds()), Emit: prop.EmitFalse},
		"PreparingForShutdown": {Value: false, Emit: prop.EmitFalse},
	}})
	require.NoError(t, err)
	for _, name := range []string{"org.freedesktop.login1", "org.freedesktop.systemd1"} {
		_, err := conn.RequestName(name, dbus.NameFlagDoNotQueue)
		require.NoError(t, err)
	}
	return l
}

// Inhibit returns the write end of a pipe, which is the lock.
func (l *Logind) Inhibit(what, _, _, mode string) (dbus.UnixFD, *dbus.Error) {
	if what != "shutdown" || mode != "delay" {
		return 0, dbus.MakeFailedError(fmt.Errorf("%s, %s", what, mode))
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	fd := dbus.UnixFD(w.Fd())
	l.Locks <- Lock{r, w}
	return fd, nil
}

// Say emits the signal that the machine is shutting down, or that the shutdown was cancelled.
func (l *Logind) Say(t testing.TB, down bool) {
	t.Helper()
	l.props.SetMust("org.freedesktop.login1.Manager", "PreparingForShutdown", down)
	require.NoError(t, l.conn.Emit("/org/freedesktop/login1", "org.freedesktop.login1.Manager.PrepareForShutdown", down))
}

// Leave removes Logind from the bus.
func (l *Logind) Leave() error { return l.conn.Close() }

type systemd struct{ l *Logind }

// KillUnit makes logind reload its drop-in file.
func (s systemd) KillUnit(unit, _ string, signal int32) *dbus.Error {
	if unit != "systemd-logind.service" || signal != 1 || s.l.Deaf.Load() {
		return nil
	}
	data, err := os.ReadFile(s.l.DropIn)
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

// Package logindtest is a bus of D-Bus, and a small logind on it, for tests that cannot have
// their machine go down.
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

	_ "github.com/podwright/podwright/examples/tools/testbed/tb" // the testbed sees to it that there is a dbus-daemon
)

const busConfig = `<busconfig><type>session</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`

// StartBus runs a real dbus-daemon until the test ends or stop is called. Without one the
// test is skipped; where real parts are asked for (PODWRIGHT_REQUIRE_CRI) it fails.
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

// Lock is a lock that was given out: the agent holds a copy of W, which R sees the end of.
type Lock struct{ R, W *os.File }

// Logind is a small login manager: it gives out locks, and waits for as long as its
// drop-in file says once it is told to read it.
type Logind struct {
	// DropIn is the file that it reads; Deaf: it does not.
	DropIn string
	Deaf   atomic.Bool
	// Locks are those that were given out.
	Locks chan Lock

	conn  *dbus.Conn
	props *prop.Properties
}

// Start runs a Logind on a bus until the test ends. It waits for max at first.
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

// Inhibit hands out the end of a pipe: it is closed when the lock is.
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

// Say tells all that the machine goes down, or that it does not, after all.
func (l *Logind) Say(t testing.TB, down bool) {
	t.Helper()
	l.props.SetMust("org.freedesktop.login1.Manager", "PreparingForShutdown", down)
	require.NoError(t, l.conn.Emit("/org/freedesktop/login1", "org.freedesktop.login1.Manager.PrepareForShutdown", down))
}

// Leave takes it off the bus.
func (l *Logind) Leave() error { return l.conn.Close() }

type systemd struct{ l *Logind }

// KillUnit has logind read its file.
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

// Package shutdown lets systemd-logind tell a shutdown.Manager, over D-Bus, that the
// machine goes down, and makes logind wait for it.
package shutdown

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/podwright/podwright/syncloop/shutdown"
)

const (
	logindName    = "org.freedesktop.login1"
	logindPath    = dbus.ObjectPath("/org/freedesktop/login1")
	logindManager = "org.freedesktop.login1.Manager"
	prepare       = "PrepareForShutdown"

	// dropIn is where logind is told to wait for longer.
	dropIn = "/etc/systemd/logind.conf.d/99-kubelet.conf"
	// sighup makes logind read it.
	sighup = int32(1)
	// timeout is how long a bus, or logind, may think.
	timeout = 10 * time.Second
)

// Logind is a shutdown.Login. The zero value is the machine's.
type Logind struct {
	// Address is that of the bus. Empty: DBUS_SYSTEM_BUS_ADDRESS, or else the usual one.
	Address string
	// DropIn is the file that Logind writes when logind waits for too short a time.
	// Empty: /etc/systemd/logind.conf.d/99-kubelet.conf.
	DropIn string
}

var _ shutdown.Login = Logind{}

// Connect listens to logind, and makes it wait for delay at least: if it does not yet,
// by a drop-in file. It gives up after ten seconds.
func (l Logind) Connect(ctx context.Context, delay time.Duration) (shutdown.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := l.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("D-Bus: %w", err)
	}
	s := &session{conn: conn, signals: make(chan bool), raw: make(chan *dbus.Signal, 16), closed: make(chan struct{}), joined: make(chan struct{})}
	conn.Signal(s.raw)
	go s.listen()
	if err := s.prepare(ctx, delay, cmp.Or(l.DropIn, dropIn)); err != nil {
		return nil, errors.Join(fmt.Errorf("logind: %w", err), s.Close())
	}
	return s, nil
}

// dial connects to the bus. Only the end of the connection ends godbus' handshake, so ctx
// ends it until there is one; the session's life is its own.
func (l Logind) dial(ctx context.Context) (*dbus.Conn, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	connect := dbus.ConnectSystemBus
	if l.Address != "" {
		connect = func(opts ...dbus.ConnOption) (*dbus.Conn, error) { return dbus.Connect(l.Address, opts...) }
	}
	conn, err := connect(dbus.WithContext(life))
	if !stop() { // too late
		if err == nil {
			err = conn.Close()
		}
		return nil, errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		end()
		return nil, err
	}
	return conn, nil
}

// session is a connection to logind.
type session struct {
	conn    *dbus.Conn
	raw     chan *dbus.Signal
	signals chan bool
	closed  chan struct{} // by Close
	joined  chan struct{} // by listen
}

func (s *session) prepare(ctx context.Context, delay time.Duration, file string) error {
	if err := s.conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(logindManager), dbus.WithMatchMember(prepare), dbus.WithMatchObjectPath(logindPath)); err != nil {
		return err
	}
	// logind may come and go without the bus.
	if err := s.conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, logindName)); err != nil {
		return err
	}
	return s.stretch(ctx, delay, file)
}

// stretch sees to it that logind waits for delay.
func (s *session) stretch(ctx context.Context, delay time.Duration, file string) error {
	now, err := s.delay(ctx)
	if err != nil || now >= delay {
		return err
	}
	if err := writeDropIn(file, delay); err != nil {
		return err
	}
	kill := s.conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1").
		CallWithContext(ctx, "org.freedesktop.systemd1.Manager.KillUnit", 0, "systemd-logind.service", "all", sighup)
	if kill.Err != nil {
		return fmt.Errorf("reload: %w", kill.Err)
	}
	// It reads the file when it gets to it, and says nothing.
	for wait, tries := 100*time.Millisecond, 5; tries > 0; wait, tries = 2*wait, tries-1 {
		if now, err = s.delay(ctx); err != nil || now >= delay {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("%w: %v, not %v, in spite of %s", shutdown.ErrDelayTooShort, now, delay, file)
}

// writeDropIn writes the file, if it does not say so yet: a logind that does not follow
// is asked again and again.
func writeDropIn(file string, delay time.Duration) error {
	seconds := int64((delay + time.Second - 1) / time.Second)
	text := fmt.Appendf(nil, "# Written by the kubelet, for graceful shutdown of the node.\n[Login]\nInhibitDelayMaxSec=%d\n", seconds)
	if is, err := os.ReadFile(file); err == nil && bytes.Equal(is, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

func (s *session) logind() dbus.BusObject { return s.conn.Object(logindName, logindPath) }

// property reads a property of logind into out.
func (s *session) property(ctx context.Context, name string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := s.logind().CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, logindManager, name).Store(out)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (s *session) delay(ctx context.Context) (time.Duration, error) {
	var micros uint64
	err := s.property(ctx, "InhibitDelayMaxUSec", &micros)
	return time.Duration(min(micros, 1<<53)) * time.Microsecond, err
}

// GoingDown tells whether logind prepares for a shutdown.
func (s *session) GoingDown(ctx context.Context) (down bool, err error) {
	err = s.property(ctx, "PreparingForShutdown", &down)
	return down, err
}

// Lock takes an inhibitor lock of mode delay.
func (s *session) Lock(ctx context.Context) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var fd dbus.UnixFD
	err := s.logind().CallWithContext(ctx, logindManager+".Inhibit", 0, "shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay").Store(&fd)
	if err != nil {
		return nil, fmt.Errorf("logind: Inhibit: %w", err)
	}
	return os.NewFile(uintptr(fd), "inhibitor lock"), nil
}

// Signals are what logind says of the machine's shutdown.
func (s *session) Signals() <-chan bool { return s.signals }

// Close ends the connection, and what listens to it.
func (s *session) Close() error {
	close(s.closed)
	err := s.conn.Close()
	<-s.joined
	return err
}

// listen keeps the newest of the signals until somebody takes it, so that the bus is
// never held up. It ends with the connection, or with logind.
func (s *session) listen() {
	defer close(s.joined)
	defer close(s.signals)
	var newest bool
	var out chan bool // nil: there is nothing to tell
	for {
		select {
		case <-s.closed:
			return
		case out <- newest:
			out = nil
		case sig, ok := <-s.raw:
			if !ok || logindGone(sig) {
				return
			}
			if sig.Name == logindManager+"."+prepare && dbus.Store(sig.Body, &newest) == nil {
				out = s.signals
			}
		}
	}
}

// logindGone tells whether a signal says that logind has left the bus.
func logindGone(sig *dbus.Signal) bool {
	var name, was, is string
	return sig.Name == "org.freedesktop.DBus.NameOwnerChanged" && dbus.Store(sig.Body, &name, &was, &is) == nil && name == logindName && was != ""
}

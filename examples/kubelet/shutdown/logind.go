// Package shutdown connects a shutdown.Manager to systemd-logind over D-Bus: logind reports a
// shutdown of the machine and delays it for the manager.
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

	// dropIn is the file that configures logind's delay.
	dropIn = "/etc/systemd/logind.conf.d/99-kubelet.conf"
	// sighup makes logind reload its configuration.
	sighup = int32(1)
	// timeout bounds each call to the bus or to logind.
	timeout = 10 * time.Second
)

// Logind implements shutdown.Login. The zero value uses the machine's logind.
type Logind struct {
	// Address is the address of the bus. Default: DBUS_SYSTEM_BUS_ADDRESS, or else the standard
	// address.
	Address string
	// DropIn is the file that Connect writes if logind's delay is too short.
	// Default: /etc/systemd/logind.conf.d/99-kubelet.conf.
	DropIn string
}

var _ shutdown.Login = Logind{}

// Connect subscribes to logind's signals and makes it delay a shutdown by at least delay. If its
// delay is shorter, Connect writes a drop-in file and reloads logind. It fails after ten seconds.
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

// dial connects to the bus. godbus' handshake ends only with the context of the connection. So ctx
// cancels that context until dial returns; after that the session ends it.
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
	// logind may leave and rejoin the bus.
	if err := s.conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, logindName)); err != nil {
		return err
	}
	return s.stretch(ctx, delay, file)
}

// stretch ensures that logind delays a shutdown by at least delay.
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
	// logind reloads the file asynchronously and without a reply.
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
	return fmt.Errorf("%w: %v instead of %v, although %s was written", shutdown.ErrDelayTooShort, now, delay, file)
}

// writeDropIn writes the file unless it has this content already: Connect is repeated while logind
// does not follow.
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

// GoingDown reports whether logind is preparing for a shutdown.
func (s *session) GoingDown(ctx context.Context) (down bool, err error) {
	err = s.property(ctx, "PreparingForShutdown", &down)
	return down, err
}

// Lock takes an inhibitor lock with mode "delay". It is released by Close.
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

// Signals returns the channel of shutdown signals: true for its start, false for its cancellation.
// The channel is closed when the connection ends or logind leaves the bus.
func (s *session) Signals() <-chan bool { return s.signals }

// Close closes the connection and waits for its goroutine.
func (s *session) Close() error {
	close(s.closed)
	err := s.conn.Close()
	<-s.joined
	return err
}

// listen forwards signals. It keeps only the newest until it is received, so that it never blocks
// the bus. It returns when the connection ends or logind leaves the bus.
func (s *session) listen() {
	defer close(s.joined)
	defer close(s.signals)
	var newest bool
	var out chan bool // nil: no signal is pending
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

// logindGone reports whether a signal means that logind has left the bus.
func logindGone(sig *dbus.Signal) bool {
	var name, was, is string
	return sig.Name == "org.freedesktop.DBus.NameOwnerChanged" && dbus.Store(sig.Body, &name, &was, &is) == nil && name == logindName && was != ""
}

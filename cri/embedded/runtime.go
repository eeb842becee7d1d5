package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/fields"
)

// Config says how New sets a runtime up.
type Config struct {
	// StateDir is a directory for this runtime alone; it is made. What is kept
	// there does not outlive the containers. Required, absolute.
	StateDir string
	// Streams is fake.Config.Streams. With it processes can be attached to,
	// others can be run beside them, and port-forward sessions reach the ports
	// of the host's loopback address. A terminal is allocated where it is asked
	// for. nil: Exec, Attach and PortForward are Unimplemented.
	Streams fake.StreamServer
	// Logger gets what goes wrong around processes. nil: discarded.
	Logger *slog.Logger
}

// Runtime is a fake.Runtime whose containers are processes of the host.
type Runtime struct {
	*fake.Runtime
	unlock func() error // gives StateDir back, once
}

// New makes a runtime named "embedded" that runs containers as plain processes of
// the host: no isolation, no root, no runtime to install. Every image name counts as present, every pod
// has the host's address, logs are written where the sandbox's config says. The
// processes end with this process, also when it is killed.
//
// main must call RunSupervisor first, else the error is ErrNoSupervisor.
func New(cfg Config) (*Runtime, error) {
	f := fields.Of("embedded: Config")
	f.Absolute("StateDir", cfg.StateDir)
	if err := f.Err(); err != nil {
		return nil, err
	}
	scratch := filepath.Join(cfg.StateDir, "scratch")
	fields.Logger(&cfg.Logger)
	host, err := resolver(scratch, cfg.Logger)
	if err != nil {
		return nil, err
	}
	rt, err := fake.New(fake.Config{
		Name: "embedded", Programs: host, Exec: host, AnyImage: true, ImageFilesystem: cfg.StateDir,
		FixedIPs: []string{hostIP()}, Logger: cfg.Logger,
		Streams: cfg.Streams, Ports: dialLoopback,
	})
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded: Config.StateDir: %w", err)
	}
	unlock, err := lockDir(cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("embedded: Config.StateDir: %w", err)
	}
	// What a predecessor that was killed has left there.
	if err := os.RemoveAll(scratch); err != nil {
		return nil, errors.Join(fmt.Errorf("embedded: Config.StateDir: %w", err), unlock())
	}
	return &Runtime{Runtime: rt, unlock: sync.OnceValue(unlock)}, nil
}

// Close is fake.Runtime.Close; then it releases StateDir. It can be repeated.
func (rt *Runtime) Close() error {
	return errors.Join(rt.Runtime.Close(), rt.unlock())
}

// dialLoopback connects to what a host process listens on.
func dialLoopback(ctx context.Context, _ fake.PodIdentity, port int) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// hostIP returns the first address of this host that is not loopback, IPv4 before
// IPv6, else 127.0.0.1.
func hostIP() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	found := "127.0.0.1"
	for _, address := range addresses {
		network, ok := address.(*net.IPNet)
		if !ok || !network.IP.IsGlobalUnicast() {
			continue
		}
		if network.IP.To4() != nil {
			return network.IP.String()
		}
		if found == "127.0.0.1" {
			found = network.IP.String()
		}
	}
	return found
}

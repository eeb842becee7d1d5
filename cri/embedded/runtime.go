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

// Config configures a Runtime.
type Config struct {
	// StateDir is a directory for this runtime alone. New creates it. Its contents do not outlive
	// the containers. Required, absolute.
	StateDir string
	// Streams is fake.Config.Streams. With it Exec and Attach work on the processes, with a
	// terminal if requested, and PortForward reaches ports of the host's loopback address. Nil:
	// Exec, Attach and PortForward are Unimplemented.
	Streams fake.StreamServer
	// Logger receives problems with processes. Nil discards.
	Logger *slog.Logger
}

// Runtime is a fake.Runtime whose containers are host processes.
type Runtime struct {
	*fake.Runtime
	unlock func() error // releases StateDir; idempotent
}

// New returns a runtime named "embedded" that runs containers as plain host processes, without
// isolation. Every image name counts as present, every pod has the host's address, and logs are
// written to the paths in the sandbox configs. The processes end with this process, also on
// SIGKILL.
//
// main must call RunSupervisor first, else New returns ErrNoSupervisor.
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
	// Left by a predecessor that was killed.
	if err := os.RemoveAll(scratch); err != nil {
		return nil, errors.Join(fmt.Errorf("embedded: Config.StateDir: %w", err), unlock())
	}
	return &Runtime{Runtime: rt, unlock: sync.OnceValue(unlock)}, nil
}

// Close closes the fake.Runtime and then releases StateDir. It is idempotent.
func (rt *Runtime) Close() error {
	return errors.Join(rt.Runtime.Close(), rt.unlock())
}

func dialLoopback(ctx context.Context, _ fake.PodIdentity, port int) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// hostIP returns the host's first address that is not loopback, IPv4 before IPv6, else 127.0.0.1.
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

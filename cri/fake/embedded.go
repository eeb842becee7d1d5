package fake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// EmbeddedConfig says how NewEmbedded sets a runtime up.
type EmbeddedConfig struct {
	// StateDir is a directory for this runtime alone; it is made. What is kept
	// there does not outlive the containers. Required, absolute.
	StateDir string
	// HostIP is the address of every pod. Default: the first address of the
	// host that is not loopback, else 127.0.0.1.
	HostIP string
	// Streams is Config.Streams. With it processes can be attached to, others
	// can be run beside them, and port-forward sessions reach the ports of the
	// host's loopback address. A terminal is allocated where it is asked for.
	// nil: Exec, Attach and PortForward are Unimplemented.
	Streams StreamServer
	// Intercept is Config.Intercept. Default nil.
	Intercept func(ctx context.Context, call string, request any) error
	// Logger gets what goes wrong around processes. nil: discarded.
	Logger *slog.Logger
}

// NewEmbedded makes a runtime named "embedded" that runs containers as plain
// processes of the host: no isolation, no root, no runtime to install, for
// trying out and for tests. See HostProcess for what its containers can and
// cannot do. Every image name counts as present, every pod has the host's
// address, logs are written where the sandbox's config says. The processes end
// with this process, also when it is killed; Close ends them and releases StateDir.
//
// main must call RunSupervisor first, else the error is ErrNoSupervisor.
func NewEmbedded(cfg EmbeddedConfig) (*Runtime, error) {
	if !filepath.IsAbs(cfg.StateDir) {
		return nil, fmt.Errorf("fake: StateDir %q is not absolute", cfg.StateDir)
	}
	scratch := filepath.Join(cfg.StateDir, "scratch")
	host, err := HostProcess(HostConfig{ScratchDir: scratch, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	if cfg.HostIP == "" {
		cfg.HostIP = hostIP()
	}
	rt, err := New(Config{
		Name: "embedded", Programs: host, Exec: host, AnyImage: true, ImageFilesystem: cfg.StateDir,
		FixedIPs: []string{cfg.HostIP}, Intercept: cfg.Intercept, Logger: cfg.Logger,
		Streams: cfg.Streams, Ports: dialLoopback,
	})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("fake: StateDir: %w", err)
	}
	unlock, err := lockDir(cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("fake: StateDir: %w", err)
	}
	// What a predecessor that was killed has left there.
	if err := os.RemoveAll(scratch); err != nil {
		return nil, errors.Join(fmt.Errorf("fake: StateDir: %w", err), unlock())
	}
	rt.release = unlock
	return rt, nil
}

// dialLoopback connects to what a host process listens on.
func dialLoopback(ctx context.Context, _ PodIdentity, port int) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// hostIP finds an address of this host, IPv4 before IPv6.
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

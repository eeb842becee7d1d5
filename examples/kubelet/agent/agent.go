package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podwright/podwright/cri/cgroups"
	kernel "github.com/podwright/podwright/examples/kubelet/cgroups"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/metrics"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop/shutdown"
	"github.com/podwright/podwright/volume/mounts"
)

// Config configures an Agent. Flags.NodeName, Flags.RootDir, Kubelet.PodLogsDir and
// Connect are required. Begin with what config.FromArgs or config.Default returns: what
// is zero of Kubelet gets its default, but zeros of Flags count.
//
// Without Kubelet.StaticPodPath and Kubelet.StaticPodURL nothing is started, and pods
// that run are left alone.
type Config struct {
	config.Config
	// Connect reaches the runtime.
	Connect Connector
	// Cgroups reaches the machine's cgroups by a driver, that of the runtime; nil leaves
	// pods without cgroups of their own, as Kubelet.CgroupsPerQOS: false does.
	Cgroups func(driver cgroups.Driver) (kernel.Kernel, error)
	// ShareRoot prepares the root folder before anything is put into it; its error ends the
	// agent. nil leaves the folder as it is.
	ShareRoot func(ctx context.Context) error
	// Tune prepares the kernel once the runtime is ready, before the first pod as a rule;
	// its error ends the agent. nil leaves the kernel as it is.
	Tune func() error
	// DialAPI opens connections to the API server of Flags.Kubeconfig; nil means those of
	// the node's network.
	DialAPI func(ctx context.Context, network, address string) (net.Conn, error)
	// KernelLog opens the kernel's log, in which it is told which processes were killed since memory
	// had run out (see oom.Open). If it fails, so does Run. nil, and one that returns nil: nobody is
	// told.
	KernelLog func() (io.ReadCloser, error)
	// AppArmor tells that the node confines containers by AppArmor; false refuses pods that ask for it.
	AppArmor bool
	// Login tells that the machine goes down, for Kubelet.ShutdownGracePeriod and its like; nil: nobody
	// does, and pods end as the machine sees fit.
	Login shutdown.Login
	// Span takes spans of what is done with pods, images and garbage (see podworkers.Config,
	// images.Config, gc.Config and podsyncer.Config); nil: nobody does.
	Span func(ctx context.Context, name string, attributes ...slog.Attr) (_ context.Context, end func(err error))
	// API is where the kubelet API is served; nil: nowhere. Run closes it.
	API net.Listener
	// Metrics is where the agent counts what it does: a NewMetrics of its own, of which
	// the Connector tells calls of the runtime. nil: it makes one, which lacks those.
	Metrics *metrics.Metrics
	// SetVerbosity changes how much Logger logs; nil: that cannot be changed.
	SetVerbosity func(verbosity int)
	// ShutdownTimeout is how long each part may take to stop; zero means 10 s.
	ShutdownTimeout time.Duration
	// Logger receives what a person should know; nil discards.
	Logger *slog.Logger
	// watchDrivers is csi.RegistryConfig.Watch. Tests in a bubble cannot use the kernel's.
	watchDrivers func(ctx context.Context, look func() (folders []string)) error
}

func (c *Config) complete() error {
	f := fields.Of("agent: Config")
	f.Required("Flags.NodeName", c.Flags.NodeName)
	f.Required("Flags.RootDir", c.Flags.RootDir)
	f.Required("Kubelet.PodLogsDir", c.Kubelet.PodLogsDir)
	f.Required("Connect", c.Connect)
	if err := f.Err(); err != nil {
		return err
	}
	config.SetDefaults(&c.Kubelet)
	if c.Metrics == nil {
		var err error
		if c.Metrics, err = NewMetrics(&c.Config); err != nil {
			return err
		}
	}
	fields.Default(&c.ShutdownTimeout, 10*time.Second)
	fields.Logger(&c.Logger)
	return nil
}

// Agent runs the pods of one node. Use New.
type Agent struct {
	cfg       Config
	log       *slog.Logger
	folders   folders
	connected connected
	inputs    atomic.Pointer[inputs] // nil unless the agent runs

	mu   sync.Mutex
	root error // of the root folder's last check
}

// New checks the configuration and returns an Agent that does nothing until Run.
func New(cfg Config) (*Agent, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, log: cfg.Logger, folders: folders{root: cfg.Flags.RootDir}}
	a.connected.set(nil, errors.New("not running yet"))
	if err := cfg.Metrics.Follow(a.live()); err != nil {
		return nil, fmt.Errorf("agent: Config.Metrics: %w", err)
	}
	return a, nil
}

// Run runs the pods until ctx ends, then stops everything but the pods and
// returns nil. A runtime that cannot be reached, at the start or later, is no
// reason to return. It may be called again after it has returned; a root folder
// that another agent has is ErrInUse.
func (a *Agent) Run(ctx context.Context) (err error) {
	if a.cfg.API != nil {
		defer a.cfg.API.Close() // it is closed already if it was served
	}
	if err := a.prepareRoot(ctx); err != nil {
		return a.setupFailed(ctx, err)
	}
	lock, err := a.folders.lock()
	if err != nil {
		return a.setupFailed(ctx, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	a.setRoot(nil)
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { a.watchRoot(watching, lock) })
	defer watch.Wait()
	defer stop()
	in, err := newInputs(&a.cfg, &a.connected)
	if err != nil {
		return a.setupFailed(ctx, fmt.Errorf("agent: %w", err))
	}
	warnOfSwap(ctx, &a.cfg, in.recorder, &mounts.Kernel{})
	reading, leave := context.WithCancel(ctx)
	read := make(chan error, 1)
	go func() { read <- in.references.run(reading) }()
	defer func() {
		leave()
		err = errors.Join(err, <-read)
	}()
	if in.api, err = a.newAPI(in.cluster); err != nil {
		return a.setupFailed(ctx, fmt.Errorf("kubelet API: %w", err))
	}
	a.connected.set(nil, errors.New("not connected yet"))
	a.inputs.Store(in)
	defer func() {
		a.connected.set(nil, errors.New("stopped"))
		a.inputs.Store(nil)
	}()
	memory, err := watchMemory(&a.cfg, in.recorder)
	if err != nil {
		return a.setupFailed(ctx, fmt.Errorf("agent: %w", err))
	}
	parts := []func(context.Context) error{func(ctx context.Context) error { return a.runPods(ctx, in) }}
	if in.api != nil {
		parts = append(parts, func(ctx context.Context) error { return in.api.run(ctx, &a.cfg) })
	}
	if memory != nil {
		parts = append(parts, memory.Run)
	}
	return in.runWith(ctx, func(ctx context.Context) error { return run.All(ctx, parts...) })
}

// runPods connects to the runtime and runs pods on it until ctx ends.
func (a *Agent) runPods(ctx context.Context, in *inputs) (err error) {
	conn, err := a.connect(ctx, in.sources)
	if err != nil {
		return a.setupFailed(ctx, fmt.Errorf("agent: %w", err))
	}
	if conn == nil {
		return nil
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	n, err := newNode(ctx, in, conn)
	if err != nil {
		return a.setupFailed(ctx, fmt.Errorf("agent: %w", err))
	}
	a.connected.set(n, nil)
	return n.run(ctx)
}

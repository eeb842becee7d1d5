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

// Config configures an Agent. Flags.NodeName, Flags.RootDir, Kubelet.PodLogsDir and Connect are
// required. Start from the result of config.FromArgs or config.Default: zero fields of Kubelet get
// their defaults, but zero fields of Flags are used as they are.
//
// Without Kubelet.StaticPodPath, Kubelet.StaticPodURL and Flags.Kubeconfig the agent starts no pods
// and leaves running pods alone.
type Config struct {
	config.Config
	// Connect connects to the runtime.
	Connect Connector
	// Cgroups opens the machine's cgroups for the cgroup driver of the runtime. Optional: without
	// it pods have no cgroups of their own, as with Kubelet.CgroupsPerQOS: false.
	Cgroups func(driver cgroups.Driver) (kernel.Kernel, error)
	// ShareRoot prepares the root folder before the first write into it. Its error ends Run.
	// Optional.
	ShareRoot func(ctx context.Context) error
	// Tune sets kernel parameters once the runtime is ready, usually before the first pod. Its
	// error ends Run. Optional.
	Tune func() error
	// DialAPI opens connections to the API server of Flags.Kubeconfig. Default: the node's network.
	DialAPI func(ctx context.Context, network, address string) (net.Conn, error)
	// KernelLog opens the kernel's log, in order to report processes that the kernel
	// killed for lack of memory (see oom.Open). Its error ends Run. Optional: without it, and when
	// it returns nil, such kills are not reported.
	KernelLog func() (io.ReadCloser, error)
	// AppArmor states that the node confines containers by AppArmor. If it is false, pods that
	// request AppArmor are rejected.
	AppArmor bool
	// Login announces shutdowns of the machine, for Kubelet.ShutdownGracePeriod and
	// Kubelet.ShutdownGracePeriodByPodPriority. Optional: without it the machine decides how pods
	// end.
	Login shutdown.Login
	// Span receives spans of work on pods, images and garbage (see podworkers.Config,
	// images.Config, gc.Config and podsyncer.Config). Optional.
	Span func(ctx context.Context, name string, attributes ...slog.Attr) (_ context.Context, end func(err error))
	// API is the listener of the kubelet API. Run closes it. Optional: without it the agent does
	// not serve the API.
	API net.Listener
	// Metrics counts the agent's work. It comes from NewMetrics, and no other Agent uses it; the
	// Connector can count calls of the runtime in it. Default: the agent's own, without those
	// calls.
	Metrics *metrics.Metrics
	// SetVerbosity changes the verbosity of Logger. Optional: without it the verbosity is fixed.
	SetVerbosity func(verbosity int)
	// ShutdownTimeout bounds the stop of each part. Default: 10 s.
	ShutdownTimeout time.Duration
	// Logger receives the agent's log. Default: discard.
	Logger *slog.Logger
	// watchDrivers is csi.RegistryConfig.Watch. Tests in a bubble cannot use inotify.
	watchDrivers func(ctx context.Context, rescan func() (folders []string)) error
}

func (c *Config) complete() error {
	f := fields.Of("agent: Config")
	f.Required("Flags.NodeName", c.Flags.NodeName)
	f.Required("Flags.RootDir", c.Flags.RootDir)
	f.Required("Kubelet.PodLogsDir", c.Kubelet.PodLogsDir)
	f.Required("Connect", c.Connect)
	fields.Number(f, "ShutdownTimeout", &c.ShutdownTimeout, 10*time.Second)
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
	fields.Logger(&c.Logger)
	return nil
}

// Agent runs the pods of one node. Create it with New.
type Agent struct {
	cfg       Config
	log       *slog.Logger
	folders   folders
	connected connected
	inputs    atomic.Pointer[inputs] // nil unless the agent runs
	lines     lineReader

	mu   sync.Mutex
	root error // result of the last check of the root folder
}

// New checks the configuration and returns an Agent. The agent does nothing before Run.
func New(cfg Config) (*Agent, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, log: cfg.Logger, folders: folders{root: cfg.Flags.RootDir}, lines: newLineReader()}
	a.connected.set(nil, errors.New("not running yet"))
	if err := cfg.Metrics.Follow(a.live()); err != nil {
		return nil, fmt.Errorf("agent: Config.Metrics: %w", err)
	}
	return a, nil
}

// Run runs the pods until ctx is done. It then stops all parts, leaves the pods running, and
// returns nil. It retries while the runtime is unavailable, both at the start and later. It returns
// ErrInUse if another agent uses the root folder. Run may be called again after it has returned.
func (a *Agent) Run(ctx context.Context) (err error) {
	if a.cfg.API != nil {
		defer a.cfg.API.Close() // the server may have closed it already
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
	defer func() { // all parts that use the connection have ended
		a.connected.set(nil, errors.New("stopped"))
		err = errors.Join(err, in.disconnect())
	}()
	return in.runWith(ctx, func(ctx context.Context) error { return run.All(ctx, parts...) })
}

func (a *Agent) runPods(ctx context.Context, in *inputs) (err error) {
	conn, err := a.connect(ctx, in.sources)
	if err != nil {
		return a.setupFailed(ctx, fmt.Errorf("agent: %w", err))
	}
	if conn == nil {
		return nil
	}
	in.disconnect = conn.Close
	n, err := newNode(ctx, in, conn)
	if err != nil {
		return a.setupFailed(ctx, fmt.Errorf("agent: %w", err))
	}
	a.connected.set(n, nil)
	return n.run(ctx)
}

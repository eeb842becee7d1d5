package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/cri/images/records"
	"github.com/podwright/podwright/cri/pods"
)

// Config configures an Agent. NodeName, RootDir, PodLogsDir and Connect are
// required.
type Config struct {
	// NodeName becomes part of the names and UIDs of static pods.
	NodeName string
	// RootDir holds the agent's files, as an upstream kubelet lays them out.
	// Absolute.
	RootDir string
	// PodManifestPath is the folder, or the file, with manifests; "" for none.
	// Without it and without a ManifestURL nothing is started, and pods that run are
	// left alone.
	PodManifestPath string
	// ManifestURL is where a web server has more pods; "" for none. It is asked with
	// ManifestURLHeader.
	ManifestURL       string
	ManifestURLHeader http.Header
	// PodLogsDir holds the containers' logs. Absolute.
	PodLogsDir string
	// ContainerLogsDir gets a link to each log; "" for none.
	ContainerLogsDir string
	// Connect reaches the runtime.
	Connect Connector
	// SyncFrequency is the resync interval of a pod; zero means 1 min.
	SyncFrequency time.Duration
	// AdaptiveRelist lets the pause between lists of the runtime's pods follow what
	// happens, where the runtime has no events: see pleg.Config.
	AdaptiveRelist bool
	// FileCheckFrequency is how often manifests are listed when nothing seems to
	// have changed; zero means 20 s.
	FileCheckFrequency time.Duration
	// HTTPCheckFrequency is how often ManifestURL is asked; zero means 20 s.
	HTTPCheckFrequency time.Duration
	// MaxCrashLoopBackoff bounds the delay before a crashing container starts
	// again; zero means 300 s.
	MaxCrashLoopBackoff time.Duration
	// MaxParallelImagePulls is how many pulls run at a time; zero means one
	// after the other, a negative value no limit.
	MaxParallelImagePulls int
	// RegistryPullQPS and RegistryBurst bound how often pulls begin; zero means
	// 5 and 10, a negative QPS no limit.
	RegistryPullQPS, RegistryBurst int
	// CredentialProviderConfig is the file, or folder, that configures plugins which
	// know credentials for registries; "" for none. Their programs are in
	// CredentialProviderBinDir.
	CredentialProviderConfig, CredentialProviderBinDir string
	// ImagePullVerification says for which images a pod must show that it may use
	// them; "" means NeverVerifyPreloadedImages. ImagePullAllowlist goes with
	// NeverVerifyAllowlistedImages only.
	ImagePullVerification records.Policy
	ImagePullAllowlist    []string
	// ImageGC says when images that nobody uses are removed; zero means at a disk
	// that is 85 % full, down to 80 %, none younger than 2 min. ImageGCInterval is
	// how often that is looked at; zero means 5 min.
	ImageGC         gc.Policy
	ImageGCInterval time.Duration
	// LogMaxSize is the size in bytes from which a container's log is rotated; zero
	// means 10 MiB, a negative value never. LogMaxFiles is how many files there are of
	// it then, zero means 5; LogWorkers how many are rotated at a time, zero means
	// 1; LogPeriod how often sizes are looked at, zero means 10 s.
	LogMaxSize              int64
	LogMaxFiles, LogWorkers int
	LogPeriod               time.Duration
	// DeadContainers says which dead containers are kept of pods that stay; zero
	// means one of each name.
	DeadContainers pods.GCPolicy
	// IDsPerPod is how many users a pod with hostUsers false has, a multiple of
	// 65536; zero means 65536.
	IDsPerPod uint32
	// LimitedSwap lets Burstable containers swap as much as their part of the node's
	// memory is (KEP-2400, cgroup v2 only). Otherwise none does.
	LimitedSwap bool
	// DNS is what pods are told about name servers; the zero value means those of
	// the node.
	DNS pods.DNS
	// NoCPUQuota turns off the enforcement of CPU limits. CPUQuotaPeriod is the
	// time within which they hold; zero means 100 ms.
	NoCPUQuota     bool
	CPUQuotaPeriod time.Duration
	// SeccompDefault gives containers without a seccomp profile the runtime's
	// default one instead of none.
	SeccompDefault bool
	// SingleProcessOOMKill leaves the other processes of a container alive when
	// the kernel kills one for lack of memory (cgroup v2 only).
	SingleProcessOOMKill bool
	// ShutdownTimeout is how long each part may take to stop; zero means 10 s.
	ShutdownTimeout time.Duration
	// Logger receives what a person should know; nil discards.
	Logger *slog.Logger
}

func (c *Config) complete() error {
	for field, value := range map[string]string{"NodeName": c.NodeName, "RootDir": c.RootDir, "PodLogsDir": c.PodLogsDir} {
		if value == "" {
			return fmt.Errorf("agent: Config.%s is required", field)
		}
	}
	if c.Connect == nil {
		return errors.New("agent: Config.Connect is required")
	}
	if c.SyncFrequency == 0 {
		c.SyncFrequency = time.Minute
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Agent runs the pods of one node. Use New.
type Agent struct {
	cfg     Config
	log     *slog.Logger
	folders folders

	mu   sync.Mutex
	node *node // nil while there is no connection
	err  error // why there is none
}

// New checks the configuration and returns an Agent that does nothing until Run.
func New(cfg Config) (*Agent, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Agent{
		cfg:     cfg,
		log:     cfg.Logger,
		folders: folders{root: cfg.RootDir},
		err:     errors.New("not connected yet"),
	}, nil
}

// Run runs the pods until ctx ends, then stops everything but the pods and
// returns nil. A runtime that cannot be reached, at the start or later, is no
// reason to return. It may be called again after it has returned; a root folder
// that another agent has is ErrInUse.
func (a *Agent) Run(ctx context.Context) (err error) {
	if err := a.folders.prepare(); err != nil {
		return err
	}
	unlock, err := a.folders.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	conn := a.connect(ctx)
	if conn == nil {
		return nil
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	n, err := newNode(ctx, a.cfg, a.folders, conn)
	if err != nil {
		return err
	}
	a.setState(n, nil)
	defer a.setState(nil, errors.New("stopped"))
	return n.run(ctx)
}

func (a *Agent) setState(n *node, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node, a.err = n, err
}

func (a *Agent) state() (*node, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.node, a.err
}

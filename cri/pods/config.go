package pods

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/required"
)

// Runtime is what this package needs of a container runtime. A cri.RuntimeService
// is one.
type Runtime interface {
	cri.Sandboxes
	cri.ContainerRunner
	cri.ContainerReader
}

// Images makes images present. An images.Manager is one.
type Images interface {
	// Ensure makes the image of a container present as its pull policy wants
	// it, and honours ctx while it waits or pulls. An *images.Error names the
	// reason that the container's status shows.
	Ensure(ctx context.Context, r images.Request) (images.Image, error)
}

// ImagesForgetter is an Images that remembers something of pods, such as failed pulls.
type ImagesForgetter interface {
	// Forget drops that, once the pod is gone for good.
	Forget(pod types.UID)
}

// Config configures a Manager. Runtime, Images and RuntimeName are required.
type Config struct {
	// Runtime runs sandboxes and containers. Required.
	Runtime Runtime
	// Images makes images present. Required. One that is an ImagesForgetter is told
	// what Manager.Forget is told.
	Images Images
	// RuntimeName is the prefix of container IDs, as cri.Versioner reports it:
	// "containerd". Required.
	RuntimeName string

	// LogRoot holds a directory of logs per pod; zero means /var/log/pods.
	LogRoot string
	// LinkDir gets a symbolic link to the log of each container, usually
	// /var/log/containers; zero means no links.
	LinkDir string
	// PodDir returns a pod's directory, in which /etc/hosts and termination
	// message files are made; nil means none of them: pods get the runtime's
	// /etc/hosts, and nobody can write a message.
	PodDir func(uid types.UID) string

	// MaxConcurrentStarts is how many sandboxes and containers are being
	// started at a time; zero means 4. Pulls, mounts, hooks and back-off do not
	// count, nor does what has taken more than 10 s. A pod that has its sandbox
	// goes before one that has none.
	MaxConcurrentStarts int
	// MaxConcurrentStops is how many containers and sandboxes are being stopped at a
	// time, or have a preStop handler called, so that the runtime has time for others,
	// such as exec probes; zero means 64. What has taken more than 250 ms does not
	// count: it waits for a process.
	MaxConcurrentStops int
	// MaxPodStops is the same for the containers of one pod; zero means 16.
	MaxPodStops int
	// MaxCrashLoopDelay bounds the delay before a crashing container is started
	// again; zero means 300 s. The first delay is the smaller of it and 10 s.
	MaxCrashLoopDelay time.Duration
	// StepGrace is how long a runtime call that changes something may go on
	// after the context of its sync has ended, so that what the runtime is
	// about to finish is not left half done; zero means 5 s.
	StepGrace time.Duration

	// Inputs are where environment variables, volumes and devices come from.
	// What a container asks for and none of them provides is a
	// CreateContainerConfigError.
	Inputs request.Inputs
	// CgroupParent returns the cgroup in which a pod's sandbox is put; nil
	// means the runtime's default.
	CgroupParent func(pod *v1.Pod) string
	// RuntimeHandler returns the handler of a pod's RuntimeClass. It is asked
	// only for pods that name one; nil means that such pods get no sandbox.
	RuntimeHandler func(ctx context.Context, pod *v1.Pod) (string, error)

	// Hooks runs lifecycle handlers, such as a hooks.Runner does; nil means that
	// containers with a postStart handler end with PostStartHookError, and that
	// preStop handlers are passed over with an event.
	Hooks Hooks
	// PrepareResources prepares what a pod needs beyond its cgroup, such as the
	// devices of its resource claims, before its sandbox is made; nil prepares
	// nothing. An error keeps the sandbox from being made, with the event
	// FailedPrepareDynamicResources.
	PrepareResources func(ctx context.Context, pod *v1.Pod) error
	// PreCreate is called right before a container is created and may change
	// its configuration, to pin it to CPUs for instance; nil changes nothing. An
	// error is the waiting reason PreCreateHookError.
	PreCreate func(ctx context.Context, pod *v1.Pod, container *v1.Container, config *runtimeapi.ContainerConfig) error
	// PreStart is called between the creation of a container and its start; nil
	// means nothing. An error is the waiting reason PreStartHookError.
	PreStart func(ctx context.Context, pod *v1.Pod, container *v1.Container, id string) error
	// Actuated remembers the resources that the runtime was last told for each
	// container; nil means that pods are not resized in place: changed resources
	// count from the next instance of a container.
	Actuated resize.Store
	// PodCgroups changes the cgroups of pods that are resized; nil leaves them
	// as they are.
	PodCgroups resize.Cgroups
	// Relist is told of pods in which a sync has changed something, for whoever
	// observes the runtime to look at them now; nil tells nobody. It must not
	// block.
	Relist func(uid types.UID)

	// Node is what pods are told about the node and given of it.
	Node Node
	// DNS is what pods are told about name servers.
	DNS DNS

	// Event records Kubernetes events; nil records none.
	Event func(ref v1.ObjectReference, eventtype, reason, message string)
	// Metrics are optional callbacks.
	Metrics Metrics
	// Logger gets what is not an event and not an error result; nil discards.
	Logger *slog.Logger
}

// Hooks runs the lifecycle handlers of containers. A hooks.Runner does.
type Hooks interface {
	// Run runs a handler of a container, which has the given ID in the runtime,
	// to its end or that of ctx; there is no other bound. The output is for logs,
	// and never part of the error, which becomes an event. It is called for
	// different containers at the same time.
	Run(ctx context.Context, pod *v1.Pod, container *v1.Container, id string, handler *v1.LifecycleHandler) (output string, err error)
}

// Node describes the node as far as containers depend on it.
type Node = request.Node

// DNS describes name resolution in pods.
type DNS = request.DNS

// Manager runs pods on a CRI runtime. It starts no goroutine that outlives a
// call, except for a Hooks that ignores its context (see Overdue), and keeps in memory
// only what it may forget: back-off delays, which it finds again in the runtime or is
// told (RestoreBackOff), the reasons of failed starts, which sandboxes it has stopped,
// and which preStop handlers have ended. All methods are safe for concurrent use, but for one pod SyncPod, KillPod and the removal of its
// containers never go on at the same time.
type Manager struct {
	cfg       Config
	builder   *request.Builder
	log       *slog.Logger
	files     podfiles.Layout
	gate      *gate
	stops     *gate
	crashLoop *backoff.Table
	// resizer is nil for a runtime that cannot change resources.
	resizer *resize.Resizer

	// began is when the Manager was made: older instances are an earlier one's.
	began time.Time

	mu       sync.Mutex
	failures map[types.UID]map[string]*StartError
	// restored are the containers, by pod and name, whose crash loop was taken over
	// from an earlier Manager, as far as there was one.
	restored map[types.UID]map[string]bool
	// stopped are sandboxes, by ID, whose stop has succeeded and whose removal
	// has not: they need no second stop.
	stopped map[string]bool

	preStops preStops
	refusals refusals
}

// New checks the configuration and returns a Manager.
func New(cfg Config) (*Manager, error) {
	if err := errors.Join(
		required.Field("pods: Config.Runtime", cfg.Runtime), required.Field("pods: Config.Images", cfg.Images),
		required.Field("pods: Config.RuntimeName", cfg.RuntimeName),
	); err != nil {
		return nil, err
	}
	switch {
	case cfg.MaxConcurrentStarts < 0:
		return nil, fmt.Errorf("pods: Config.MaxConcurrentStarts is negative: %d", cfg.MaxConcurrentStarts)
	case cfg.MaxConcurrentStops < 0:
		return nil, fmt.Errorf("pods: Config.MaxConcurrentStops is negative: %d", cfg.MaxConcurrentStops)
	case cfg.MaxPodStops < 0:
		return nil, fmt.Errorf("pods: Config.MaxPodStops is negative: %d", cfg.MaxPodStops)
	case cfg.MaxCrashLoopDelay < 0:
		return nil, fmt.Errorf("pods: Config.MaxCrashLoopDelay is negative: %v", cfg.MaxCrashLoopDelay)
	case cfg.StepGrace < 0:
		return nil, fmt.Errorf("pods: Config.StepGrace is negative: %v", cfg.StepGrace)
	}
	setDefaults(&cfg)
	if !filepath.IsAbs(cfg.LogRoot) {
		return nil, fmt.Errorf("pods: Config.LogRoot is not absolute: %q", cfg.LogRoot)
	}
	builder, err := request.New(request.Config{
		Node: cfg.Node, DNS: cfg.DNS, LogRoot: cfg.LogRoot, CgroupParent: cfg.CgroupParent, Event: cfg.Event, Inputs: cfg.Inputs,
	})
	if err != nil {
		return nil, fmt.Errorf("pods: %w", err)
	}
	var resizer *resize.Resizer
	if runtime, ok := cfg.Runtime.(resize.Runtime); ok {
		resizer, err = resize.New(resize.Config{Runtime: runtime, Requests: builder, Cgroups: cfg.PodCgroups, StepGrace: cfg.StepGrace})
	}
	if err != nil {
		return nil, fmt.Errorf("pods: %w", err)
	}
	return &Manager{
		resizer:   resizer,
		cfg:       cfg,
		builder:   builder,
		log:       cfg.Logger,
		files:     podfiles.Layout{LogRoot: cfg.LogRoot, LinkDir: cfg.LinkDir, PodDir: cfg.PodDir},
		gate:      newGate(cfg.MaxConcurrentStarts, placeLimit),
		stops:     newGate(cfg.MaxConcurrentStops, stopPlaceLimit),
		crashLoop: backoff.New(backoff.Config{Max: cfg.MaxCrashLoopDelay}),
		began:     time.Now(),
		failures:  map[types.UID]map[string]*StartError{},
		restored:  map[types.UID]map[string]bool{},
		stopped:   map[string]bool{},
	}, nil
}

func setDefaults(cfg *Config) {
	if cfg.LogRoot == "" {
		cfg.LogRoot = "/var/log/pods"
	}
	if cfg.MaxConcurrentStarts == 0 {
		cfg.MaxConcurrentStarts = 4
	}
	if cfg.MaxConcurrentStops == 0 {
		cfg.MaxConcurrentStops = 64
	}
	if cfg.MaxPodStops == 0 {
		cfg.MaxPodStops = 16
	}
	if cfg.MaxCrashLoopDelay == 0 {
		cfg.MaxCrashLoopDelay = 300 * time.Second
	}
	if cfg.StepGrace == 0 {
		cfg.StepGrace = 5 * time.Second
	}
	if cfg.Event == nil {
		cfg.Event = func(v1.ObjectReference, string, string, string) {}
	}
	cfg.Metrics.setDefaults()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
}

package pods

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/cri/pods/podfiles"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/cri/pods/resize"
	"github.com/podwright/podwright/internal/backoff"
	"github.com/podwright/podwright/internal/fields"
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
	// MaxCrashLoopDelay bounds the delay before a crashing container is started
	// again; zero means 300 s. The first delay is the smaller of it and 10 s.
	MaxCrashLoopDelay time.Duration

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

	// Node is what pods are told about the node and given of it.
	Node Node
	// DNS is what pods are told about name servers.
	DNS DNS

	// Event records Kubernetes events; nil records none.
	Event podwright.EventFunc
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
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	builder, err := request.New(request.Config{
		Node: cfg.Node, DNS: cfg.DNS, LogRoot: cfg.LogRoot, CgroupParent: cfg.CgroupParent, Event: cfg.Event, Inputs: cfg.Inputs,
	})
	if err != nil {
		return nil, fmt.Errorf("pods: %w", err)
	}
	var resizer *resize.Resizer
	if runtime, ok := cfg.Runtime.(resize.Runtime); ok {
		resizer, err = resize.New(resize.Config{Runtime: runtime, Requests: builder, Cgroups: cfg.PodCgroups})
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
		stops:     newGate(maxStops, stopPlaceLimit),
		crashLoop: backoff.New(backoff.Config{Max: cfg.MaxCrashLoopDelay}),
		began:     time.Now(),
		failures:  map[types.UID]map[string]*StartError{},
		restored:  map[types.UID]map[string]bool{},
		stopped:   map[string]bool{},
	}, nil
}

const (
	// maxStops is the largest number of containers and sandboxes that are being stopped, or
	// have a preStop handler called, at a time: the runtime needs time for others, such as
	// exec probes. Stops that take more than 250 ms do not count: they wait for a process.
	maxStops = 64
	// maxPodStops is the same for the containers of one pod.
	maxPodStops = 16
	// stepGrace bounds a runtime call that changes something after the context of its sync
	// is done, so that it is not left half done.
	stepGrace = 5 * time.Second
)

func (c *Config) complete() error {
	f := fields.Of("pods: Config")
	f.Required("Runtime", c.Runtime)
	f.Required("Images", c.Images)
	f.Required("RuntimeName", c.RuntimeName)
	fields.Number(f, "MaxConcurrentStarts", &c.MaxConcurrentStarts, 4)
	fields.Number(f, "MaxCrashLoopDelay", &c.MaxCrashLoopDelay, 300*time.Second)
	fields.Default(&c.LogRoot, "/var/log/pods")
	f.Absolute("LogRoot", c.LogRoot)
	fields.Default(&c.Event, func(v1.ObjectReference, string, string, string) {})
	fields.Logger(&c.Logger)
	fields.Default(&c.Metrics.OnSandboxStart, func(string, time.Duration, error) {})
	fields.Default(&c.Metrics.OnUsersStart, func(error) {})
	fields.Default(&c.Metrics.OnImagesMount, func(int, bool) {})
	fields.Default(&c.Metrics.OnContainerStart, func(ContainerKind, string) {})
	fields.Default(&c.Metrics.OnResize, func(time.Duration, error) {})
	return f.Err()
}

// ContainerKind says which list of a pod's spec a container is in.
type ContainerKind string

// The kinds of containers, by the names that metrics give them.
const (
	KindRegular   ContainerKind = "container"
	KindInit      ContainerKind = "init_container"
	KindEphemeral ContainerKind = "ephemeral_container"
)

// Metrics are callbacks for counters and histograms. Each may be nil. They are
// called from the goroutine of the sync and must not block. What was called off is
// not counted.
type Metrics struct {
	// OnSandboxStart is called after each try to make a sandbox, with the handler
	// of its RuntimeClass ("" for the default) and how long the runtime took.
	OnSandboxStart func(handler string, took time.Duration, err error)
	// OnUsersStart is called after each sync that has tried to make a sandbox for a pod with
	// users of its own (hostUsers: false), with what failed in it.
	OnUsersStart func(err error)
	// OnImagesMount is called when a container was started that mounts images, with their
	// number, and with failed when it was not since the runtime could not mount them.
	OnImagesMount func(volumes int, failed bool)
	// OnContainerStart is called after each try to start a container that was not
	// held back, with "" or the waiting reason of the failure.
	OnContainerStart func(kind ContainerKind, reason string)
	// OnResize is called after each try to resize a pod in place.
	OnResize func(took time.Duration, err error)
}

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

// Runtime is the part of a container runtime that this package uses. A cri.RuntimeService
// implements it.
type Runtime interface {
	cri.Sandboxes
	cri.ContainerRunner
	cri.ContainerReader
}

// Images pulls images. An images.Manager implements it.
type Images interface {
	// Ensure makes the image of a container present, following its pull policy. It returns soon
	// after ctx is done, also while it waits or pulls. An *images.Error carries the waiting
	// reason for the container's status.
	Ensure(ctx context.Context, r images.Request) (images.Image, error)
}

// ImagesForgetter is an Images that keeps state of pods, such as failed pulls.
type ImagesForgetter interface {
	// Forget drops the state of a pod that was removed for good.
	Forget(pod types.UID)
}

// Config configures a Manager. Runtime, Images, RuntimeName and Owner are required.
type Config struct {
	// Runtime runs sandboxes and containers. Required.
	Runtime Runtime
	// Images pulls images. Required. If it is an ImagesForgetter, Manager.Forget calls its
	// Forget.
	Images Images
	// RuntimeName is the prefix of container IDs, as cri.Versioner reports it, such as
	// "containerd". Required.
	RuntimeName string
	// Owner owns the pods of this Manager in the runtime and in LogRoot. Required.
	Owner cri.Owner

	// LogRoot is the directory with one log directory per pod. Default: /var/log/pods.
	LogRoot string
	// LinkDir is the directory of symbolic links to container logs, usually /var/log/containers.
	// Optional: without it no links are made.
	LinkDir string
	// PodDir returns the directory of a pod, for /etc/hosts and termination message files.
	// Optional: without it pods get the runtime's /etc/hosts and no termination messages.
	PodDir func(uid types.UID) string

	// MaxConcurrentStarts bounds the sandboxes and containers that start at the same time.
	// Default: 4. Pulls, mounts, hooks and back-off do not count, nor does a start that takes
	// more than 10 s. Containers go before new sandboxes.
	MaxConcurrentStarts int
	// MaxCrashLoopDelay is the longest delay before a crashing container is restarted. Default:
	// 300 s. The first delay is 10 s, or MaxCrashLoopDelay if that is shorter.
	MaxCrashLoopDelay time.Duration

	// Inputs provide environment variables, volumes and devices. If no input provides a
	// container's requirement, its start fails with CreateContainerConfigError.
	Inputs request.Inputs
	// CgroupParent returns the parent cgroup of a pod's sandbox. Optional: without it the runtime
	// chooses.
	CgroupParent func(pod *v1.Pod) string
	// RuntimeHandler returns the handler of a pod's RuntimeClass. It is called only for pods with
	// a RuntimeClass. Optional: without it such pods get no sandbox.
	RuntimeHandler func(ctx context.Context, pod *v1.Pod) (string, error)

	// Hooks runs lifecycle handlers; a hooks.Runner implements it. Optional: without it
	// containers with a postStart handler fail with PostStartHookError, and preStop handlers are
	// skipped with an event.
	Hooks Hooks
	// PreCreate is called immediately before a container is created and may change its
	// configuration, for example to pin it to CPUs. Its error becomes the waiting reason
	// PreCreateHookError. Optional.
	PreCreate func(ctx context.Context, pod *v1.Pod, container *v1.Container, config *runtimeapi.ContainerConfig) error
	// PreStart is called between the creation and the start of a container. Its error becomes the
	// waiting reason PreStartHookError. Optional.
	PreStart func(ctx context.Context, pod *v1.Pod, container *v1.Container, id string) error
	// Actuated stores the resources last applied to each container in the runtime. Optional:
	// without it pods are not resized in place, and changed resources apply from the next
	// instance of a container. If it cannot be read, a sync does no step and returns the error.
	Actuated resize.Store
	// PodCgroups resizes pod cgroups. Optional: without it they stay unchanged.
	PodCgroups resize.Cgroups

	// Node describes the node to containers.
	Node Node
	// DNS configures name resolution in pods.
	DNS DNS

	// Event records Kubernetes events. Optional.
	Event podwright.EventFunc
	// Metrics are optional callbacks.
	Metrics Metrics
	// Logger receives messages that are neither events nor returned errors. Default: discard.
	Logger *slog.Logger
}

// Hooks runs the lifecycle handlers of containers. A hooks.Runner implements it.
type Hooks interface {
	// Run runs a handler of the container with the given runtime ID until the handler ends or ctx
	// is done; there is no other bound. Only logs get the output: it must not appear in the
	// error, which becomes an event. Run is called concurrently for different containers.
	Run(ctx context.Context, pod *v1.Pod, container *v1.Container, id string, handler *v1.LifecycleHandler) (output string, err error)
}

// Node describes the node to containers.
type Node = request.Node

// DNS configures name resolution in pods.
type DNS = request.DNS

// Manager runs pods on a CRI runtime. It starts no goroutine that outlives a call, except for a
// Hooks that ignores its context (see Overdue).
// Its state in memory may be lost: back-off delays (read again from the runtime, or passed to
// RestoreBackOff), reasons of failed starts, stopped sandboxes, and finished preStop handlers.
// Manager is safe for concurrent use. For one pod, however, SyncPod, KillPod and the removal of
// containers must not run at the same time.
type Manager struct {
	cfg       Config
	builder   *request.Builder
	log       *slog.Logger
	files     podfiles.Layout
	gate      *gate
	stops     *gate
	crashLoop *backoff.Table
	// sandboxes has the delays between the sandboxes of a pod.
	sandboxes *backoff.Table
	// resizer is nil if the runtime cannot change resources.
	resizer *resize.Resizer

	// began is the creation time of the Manager. Older instances belong to an earlier Manager.
	began time.Time

	mu       sync.Mutex
	failures map[types.UID]map[string]*StartError
	// restored has the containers, by pod and name, whose crash loop was restored from an earlier
	// Manager.
	restored map[types.UID]map[string]bool
	// stopped has the IDs of sandboxes that were stopped and not yet removed. They need no second
	// stop.
	stopped map[string]bool

	preStops preStops
	refusals refusals
}

// New validates the configuration and returns a Manager.
func New(cfg Config) (*Manager, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	builder, err := request.New(request.Config{
		Node: cfg.Node, DNS: cfg.DNS, Owner: cfg.Owner, LogRoot: cfg.LogRoot, CgroupParent: cfg.CgroupParent, Event: cfg.Event, Inputs: cfg.Inputs,
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
		files:     podfiles.Layout{Owner: cfg.Owner, LogRoot: cfg.LogRoot, LinkDir: cfg.LinkDir, PodDir: cfg.PodDir},
		gate:      newGate(cfg.MaxConcurrentStarts, placeLimit),
		stops:     newGate(maxStops, stopPlaceLimit),
		crashLoop: backoff.New(backoff.Config{Max: cfg.MaxCrashLoopDelay}),
		sandboxes: backoff.New(backoff.Config{Initial: time.Second, Max: maxSandboxDelay}),
		began:     time.Now(),
		failures:  map[types.UID]map[string]*StartError{},
		restored:  map[types.UID]map[string]bool{},
		stopped:   map[string]bool{},
	}, nil
}

const (
	// maxStops bounds the containers and sandboxes that stop or run a preStop handler at the same
	// time, so that the runtime has time for other calls, such as exec probes. A stop that takes
	// more than 250 ms does not count: it waits for a process.
	maxStops = 64
	// maxPodStops is the same bound for the containers of one pod.
	maxPodStops = 16
	// maxSandboxDelay is the longest delay before a pod gets another sandbox.
	maxSandboxDelay = time.Minute
	// stepGrace bounds a runtime call that changes state after the context of its sync is done,
	// so that the change completes.
	stepGrace = 5 * time.Second
)

func (c *Config) complete() error {
	f := fields.Of("pods: Config")
	f.Required("Runtime", c.Runtime)
	f.Required("Images", c.Images)
	f.Required("RuntimeName", c.RuntimeName)
	f.Checked(c.Owner.Check())
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

// ContainerKind is the list of a pod's spec that contains a container.
type ContainerKind string

// The kinds of containers, as metrics name them.
const (
	KindRegular   ContainerKind = "container"
	KindInit      ContainerKind = "init_container"
	KindEphemeral ContainerKind = "ephemeral_container"
)

// Metrics are callbacks for counters and histograms. Each is optional. They run in the goroutine
// of the sync and must not block. Cancelled operations are not counted.
type Metrics struct {
	// OnSandboxStart is called after each attempt to run a sandbox, with its RuntimeClass handler
	// ("" for the default) and the duration of the runtime call.
	OnSandboxStart func(handler string, took time.Duration, err error)
	// OnUsersStart is called after each sync that attempted to run a sandbox with a user
	// namespace (hostUsers: false), with the error of the sync.
	OnUsersStart func(err error)
	// OnImagesMount is called after an attempt to start a container with image volumes, with
	// their number. failed is true if the runtime could not mount them. Other failures do not
	// count.
	OnImagesMount func(volumes int, failed bool)
	// OnContainerStart is called after each attempt to start a container, with "" or the waiting
	// reason of the failure. Starts refused by back-off do not count.
	OnContainerStart func(kind ContainerKind, reason string)
	// OnResize is called after each attempt to resize a pod in place.
	OnResize func(took time.Duration, err error)
}

package cri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The interfaces below cut the Container Runtime Interface (runtime.v1) into one
// small piece per concern. Consumers declare the pieces they need; RuntimeService
// and ImageService join them all. The rules common to every method:
//
//   - Safe for concurrent use. No argument is kept or changed after return.
//   - Messages that are returned belong to the caller, but the maps in them
//     (labels, annotations) are for reading only: an implementation in process
//     shares them between its replies. A caller that changes one clones it first.
//   - The context bounds the call; implementations add the per-call deadlines
//     that the client documents, never longer waits.
//   - Errors of the runtime keep their gRPC status: IsNotFound, IsUnimplemented
//     and status.Code work on them, wrapped or not.
//   - Stopping what is stopped and removing what is gone succeeds or answers
//     NotFound; a caller treats both as done.

// Versioner names the runtime. It is the first call made on a connection.
type Versioner interface {
	// Version asks for the runtime's name and versions. RuntimeName is the
	// prefix of container IDs ("containerd" in "containerd://<id>").
	Version(ctx context.Context) (*runtimeapi.VersionResponse, error)
}

// SandboxRunner changes pod sandboxes.
type SandboxRunner interface {
	// RunPodSandbox creates and starts a sandbox and returns its ID. handler
	// is the RuntimeClass handler, "" for the runtime's default.
	RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error)
	// StopPodSandbox kills what still runs in the sandbox and takes its
	// network down. It can be repeated.
	StopPodSandbox(ctx context.Context, sandboxID string) error
	// RemovePodSandbox removes the sandbox and every container in it.
	RemovePodSandbox(ctx context.Context, sandboxID string) error
}

// SandboxReader looks at pod sandboxes.
type SandboxReader interface {
	// PodSandboxStatus describes one sandbox; NotFound when there is none.
	PodSandboxStatus(ctx context.Context, sandboxID string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error)
	// ListPodSandbox lists sandboxes, all of them when filter is nil.
	ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error)
}

// ContainerRunner changes containers.
type ContainerRunner interface {
	// CreateContainer creates a container in a sandbox and returns its ID.
	// sandboxConfig is the one the sandbox was started with.
	CreateContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error)
	// StartContainer starts a created container.
	StartContainer(ctx context.Context, containerID string) error
	// StopContainer sends the stop signal, waits for grace (whole seconds,
	// rounded up) and kills what is left. Zero kills at once. It returns when
	// the container has stopped.
	StopContainer(ctx context.Context, containerID string, grace time.Duration) error
	// RemoveContainer removes a container, killing it if it still runs.
	RemoveContainer(ctx context.Context, containerID string) error
}

// ContainerReader looks at containers.
type ContainerReader interface {
	// ContainerStatus describes one container; NotFound when there is none.
	ContainerStatus(ctx context.Context, containerID string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
	// ListContainers lists containers in every state, all of them when filter
	// is nil.
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
}

// ResourceUpdater changes resources of running containers and sandboxes
// (KEP-1287, in-place resize).
type ResourceUpdater interface {
	UpdateContainerResources(ctx context.Context, request *runtimeapi.UpdateContainerResourcesRequest) error
	// UpdatePodSandboxResources is optional in a runtime: IsUnimplemented.
	UpdatePodSandboxResources(ctx context.Context, request *runtimeapi.UpdatePodSandboxResourcesRequest) error
}

// LogReopener makes a runtime reopen a container's log after a rotation.
type LogReopener interface {
	ReopenContainerLog(ctx context.Context, containerID string) error
}

// Execer runs commands in containers.
type Execer interface {
	// ExecSync runs a command to its end. timeout 0 leaves the bound to ctx.
	// A command that ran and failed returns an *ExitError along with what it
	// wrote; one that ran out of time returns ErrExecTimeout.
	ExecSync(ctx context.Context, containerID string, command []string, timeout time.Duration) (stdout, stderr []byte, err error)
}

// Streamer prepares streaming sessions: each call returns the URL on which the
// runtime serves the session.
type Streamer interface {
	Exec(ctx context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error)
	Attach(ctx context.Context, request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error)
	PortForward(ctx context.Context, request *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error)
}

// StatsReader reads resource usage.
type StatsReader interface {
	ContainerStats(ctx context.Context, containerID string) (*runtimeapi.ContainerStats, error)
	ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
	PodSandboxStats(ctx context.Context, sandboxID string) (*runtimeapi.PodSandboxStats, error)
	ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error)
}

// MetricsReader reads the runtime's own metrics (optional in a runtime).
type MetricsReader interface {
	ListMetricDescriptors(ctx context.Context) ([]*runtimeapi.MetricDescriptor, error)
	ListPodSandboxMetrics(ctx context.Context) ([]*runtimeapi.PodSandboxMetrics, error)
}

// RuntimeInfo asks the runtime about itself and configures it.
type RuntimeInfo interface {
	// Status answers RuntimeReady, NetworkReady and further conditions,
	// runtime handlers and features.
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
	// RuntimeConfig asks for the cgroup driver. Optional in a runtime
	// (containerd 1.6 lacks it): IsUnimplemented.
	RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error)
	// UpdateRuntimeConfig hands over the pod CIDR.
	UpdateRuntimeConfig(ctx context.Context, config *runtimeapi.RuntimeConfig) error
}

// EventStreamer delivers container events.
type EventStreamer interface {
	// GetContainerEvents subscribes to container events and calls handle for
	// each, one at a time, in the order of arrival. It blocks until the stream
	// ends and always returns a non-nil error: ctx's error when that ended it,
	// IsUnimplemented when the runtime has no events (containerd 1.6), else
	// what broke the stream. Rely on nothing more than that an event says "look
	// at this pod": what happens while no stream is open may be lost, or told at
	// the beginning of the next one (containerd 2.2 hands it the backlog of up
	// to a minute), and an event may be late, doubled or about what is gone.
	GetContainerEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error
}

// Checkpointer writes checkpoints of running containers (KEP-2008).
type Checkpointer interface {
	CheckpointContainer(ctx context.Context, request *runtimeapi.CheckpointContainerRequest) error
}

// Sandboxes joins reading and changing of sandboxes.
type Sandboxes interface {
	SandboxRunner
	SandboxReader
}

// Containers joins what is done to containers.
type Containers interface {
	ContainerRunner
	ContainerReader
	ResourceUpdater
	LogReopener
}

// RuntimeService is the whole RuntimeService of the CRI.
type RuntimeService interface {
	Versioner
	RuntimeInfo
	Sandboxes
	Containers
	Execer
	Streamer
	StatsReader
	MetricsReader
	EventStreamer
	Checkpointer
}

// ImageReader looks at images.
type ImageReader interface {
	// ListImages lists images, all of them when filter is nil. Runtimes may
	// ignore the filter, containerd does: look for the image in what is listed.
	ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
	// ImageStatus describes one image. A response without Image means that the
	// image is not present; that is not an error.
	ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error)
	// ImageFsInfo describes the filesystems that hold images.
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// ImageChanger pulls and removes images.
type ImageChanger interface {
	// PullImage pulls an image and returns its reference in the runtime. auth
	// is nil for an anonymous pull. No deadline is added to ctx's.
	PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error)
	// RemoveImage removes an image; removing an absent one succeeds.
	RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error
}

// ImageService is the whole ImageService of the CRI.
type ImageService interface {
	ImageReader
	ImageChanger
}

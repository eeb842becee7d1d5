package cri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Versioner identifies the runtime. Version is the first call on a connection.
type Versioner interface {
	// Version returns the runtime's name and versions. RuntimeName is the prefix of container IDs
	// ("containerd" in "containerd://<id>").
	Version(ctx context.Context) (*runtimeapi.VersionResponse, error)
}

// SandboxRunner starts, stops and removes pod sandboxes.
type SandboxRunner interface {
	// RunPodSandbox creates and starts a sandbox and returns its ID. handler is the RuntimeClass
	// handler, "" for the runtime's default.
	RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error)
	// StopPodSandbox kills the sandbox's running containers and removes its network. It is
	// idempotent.
	StopPodSandbox(ctx context.Context, sandboxID string) error
	// RemovePodSandbox removes the sandbox and every container in it.
	RemovePodSandbox(ctx context.Context, sandboxID string) error
}

// SandboxReader reads pod sandboxes.
type SandboxReader interface {
	// PodSandboxStatus returns the status of one sandbox, or NotFound.
	PodSandboxStatus(ctx context.Context, sandboxID string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error)
	// ListPodSandbox lists sandboxes; a nil filter selects all.
	ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error)
}

// ContainerRunner creates, starts, stops and removes containers.
type ContainerRunner interface {
	// CreateContainer creates a container in a sandbox and returns its ID. sandboxConfig is the
	// config that started the sandbox.
	CreateContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error)
	// StartContainer starts a created container.
	StartContainer(ctx context.Context, containerID string) error
	// StopContainer sends the stop signal, waits for grace (whole seconds, rounded up) and kills
	// the remaining processes. Zero kills at once. It returns when the container has stopped.
	StopContainer(ctx context.Context, containerID string, grace time.Duration) error
	// RemoveContainer removes a container. It kills a running one.
	RemoveContainer(ctx context.Context, containerID string) error
}

// ContainerReader reads containers.
type ContainerReader interface {
	// ContainerStatus returns the status of one container, or NotFound.
	ContainerStatus(ctx context.Context, containerID string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
	// ListContainers lists containers in every state; a nil filter selects all.
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
}

// ResourceUpdater changes resources of running containers and sandboxes (KEP-1287, in-place
// resize).
type ResourceUpdater interface {
	UpdateContainerResources(ctx context.Context, request *runtimeapi.UpdateContainerResourcesRequest) error
	// UpdatePodSandboxResources is optional: a runtime may return Unimplemented.
	UpdatePodSandboxResources(ctx context.Context, request *runtimeapi.UpdatePodSandboxResourcesRequest) error
}

// LogReopener makes a runtime reopen a container's log after a rotation.
type LogReopener interface {
	ReopenContainerLog(ctx context.Context, containerID string) error
}

// Execer runs commands in containers.
type Execer interface {
	// ExecSync runs a command to its end. With timeout 0 only ctx bounds it. For a nonzero exit
	// code it returns the output and an *ExitError; after the timeout it returns ErrExecTimeout.
	ExecSync(ctx context.Context, containerID string, command []string, timeout time.Duration) (stdout, stderr []byte, err error)
}

// Streamer prepares streaming sessions. Each call returns the URL where the runtime serves the
// session.
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

// MetricsReader reads the runtime's own metrics. It is optional in a runtime.
type MetricsReader interface {
	ListMetricDescriptors(ctx context.Context) ([]*runtimeapi.MetricDescriptor, error)
	ListPodSandboxMetrics(ctx context.Context) ([]*runtimeapi.PodSandboxMetrics, error)
}

// RuntimeInfo reads the runtime's status and configuration, and configures it.
type RuntimeInfo interface {
	// Status returns the conditions (RuntimeReady, NetworkReady and more), the runtime handlers
	// and the features.
	Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error)
	// RuntimeConfig returns the cgroup driver. It is optional: a runtime such as containerd 1.6
	// returns Unimplemented.
	RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error)
	// UpdateRuntimeConfig sends the pod CIDR to the runtime.
	UpdateRuntimeConfig(ctx context.Context, config *runtimeapi.RuntimeConfig) error
}

// EventStreamer delivers container events.
type EventStreamer interface {
	// GetContainerEvents subscribes to container events and calls handle for each, one at a time,
	// in the order of arrival. It blocks until the stream ends and always returns a non-nil error:
	// ctx's error if ctx ended the stream, Unimplemented if the runtime has no events (containerd
	// 1.6), otherwise the error that broke the stream. An event is only a hint that a pod may have
	// changed. Events between two streams may be lost, or arrive at the beginning of the second
	// (containerd 2.2 sends a backlog of up to a minute). An event may be late, duplicated, or
	// refer to a removed object.
	GetContainerEvents(ctx context.Context, handle func(*runtimeapi.ContainerEventResponse)) error
}

// Checkpointer writes checkpoints of running containers (KEP-2008).
type Checkpointer interface {
	CheckpointContainer(ctx context.Context, request *runtimeapi.CheckpointContainerRequest) error
}

// Sandboxes combines the interfaces for sandboxes.
type Sandboxes interface {
	SandboxRunner
	SandboxReader
}

// Containers combines the interfaces for containers.
type Containers interface {
	ContainerRunner
	ContainerReader
	ResourceUpdater
	LogReopener
}

// RuntimeService is the complete RuntimeService of the CRI.
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

// ImageReader reads images.
type ImageReader interface {
	// ListImages lists images; a nil filter selects all. Some runtimes, such as containerd, ignore
	// the filter, so callers search the result for their image.
	ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
	// ImageStatus returns the status of one image. A response without Image means that the image
	// is not present; this is not an error.
	ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error)
	// ImageFsInfo describes the filesystems of the image store.
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// ImageChanger pulls and removes images.
type ImageChanger interface {
	// PullImage pulls an image and returns its reference in the runtime. A nil auth pulls
	// anonymously. Only ctx bounds the call.
	PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error)
	// RemoveImage removes an image. Removing an absent image succeeds.
	RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error
}

// ImageService is the complete ImageService of the CRI.
type ImageService interface {
	ImageReader
	ImageChanger
}

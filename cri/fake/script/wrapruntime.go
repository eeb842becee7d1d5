package script

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Version implements cri.RuntimeService.
func (s *services) Version(ctx context.Context) (*runtimeapi.VersionResponse, error) {
	return through(ctx, s, "Version", about{}, func(ctx context.Context) (*runtimeapi.VersionResponse, error) {
		return s.runtime.Version(ctx)
	})
}

// Status implements cri.RuntimeService.
func (s *services) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	return through(ctx, s, "Status", about{}, func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
		return s.runtime.Status(ctx, verbose)
	})
}

// RuntimeConfig implements cri.RuntimeService.
func (s *services) RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return through(ctx, s, "RuntimeConfig", about{}, func(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
		return s.runtime.RuntimeConfig(ctx)
	})
}

// UpdateRuntimeConfig implements cri.RuntimeService.
func (s *services) UpdateRuntimeConfig(ctx context.Context, config *runtimeapi.RuntimeConfig) error {
	return throughNothing(ctx, s, "UpdateRuntimeConfig", about{}, func(ctx context.Context) error {
		return s.runtime.UpdateRuntimeConfig(ctx, config)
	})
}

// RunPodSandbox implements cri.RuntimeService.
func (s *services) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	return through(ctx, s, "RunPodSandbox", about{pod: config}, func(ctx context.Context) (string, error) {
		return s.runtime.RunPodSandbox(ctx, config, handler)
	})
}

// StopPodSandbox implements cri.RuntimeService.
func (s *services) StopPodSandbox(ctx context.Context, sandboxID string) error {
	return throughNothing(ctx, s, "StopPodSandbox", about{sandbox: sandboxID}, func(ctx context.Context) error {
		return s.runtime.StopPodSandbox(ctx, sandboxID)
	})
}

// RemovePodSandbox implements cri.RuntimeService.
func (s *services) RemovePodSandbox(ctx context.Context, sandboxID string) error {
	return throughNothing(ctx, s, "RemovePodSandbox", about{sandbox: sandboxID}, func(ctx context.Context) error {
		return s.runtime.RemovePodSandbox(ctx, sandboxID)
	})
}

// PodSandboxStatus implements cri.RuntimeService.
func (s *services) PodSandboxStatus(ctx context.Context, sandboxID string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return through(ctx, s, "PodSandboxStatus", about{sandbox: sandboxID}, func(ctx context.Context) (*runtimeapi.PodSandboxStatusResponse, error) {
		return s.runtime.PodSandboxStatus(ctx, sandboxID, verbose)
	})
}

// ListPodSandbox implements cri.RuntimeService.
func (s *services) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return through(ctx, s, "ListPodSandbox", about{}, func(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
		return s.runtime.ListPodSandbox(ctx, filter)
	})
}

// UpdatePodSandboxResources implements cri.RuntimeService.
func (s *services) UpdatePodSandboxResources(ctx context.Context, request *runtimeapi.UpdatePodSandboxResourcesRequest) error {
	return throughNothing(ctx, s, "UpdatePodSandboxResources", about{sandbox: request.GetPodSandboxId()}, func(ctx context.Context) error {
		return s.runtime.UpdatePodSandboxResources(ctx, request)
	})
}

// CreateContainer implements cri.RuntimeService.
func (s *services) CreateContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	return through(ctx, s, "CreateContainer", about{sandbox: sandboxID, config: config, pod: sandboxConfig}, func(ctx context.Context) (string, error) {
		return s.runtime.CreateContainer(ctx, sandboxID, config, sandboxConfig)
	})
}

// StartContainer implements cri.RuntimeService.
func (s *services) StartContainer(ctx context.Context, containerID string) error {
	return throughNothing(ctx, s, "StartContainer", about{container: containerID}, func(ctx context.Context) error {
		return s.runtime.StartContainer(ctx, containerID)
	})
}

// StopContainer implements cri.RuntimeService.
func (s *services) StopContainer(ctx context.Context, containerID string, grace time.Duration) error {
	return throughNothing(ctx, s, "StopContainer", about{container: containerID}, func(ctx context.Context) error {
		return s.runtime.StopContainer(ctx, containerID, grace)
	})
}

// RemoveContainer implements cri.RuntimeService.
func (s *services) RemoveContainer(ctx context.Context, containerID string) error {
	return throughNothing(ctx, s, "RemoveContainer", about{container: containerID}, func(ctx context.Context) error {
		return s.runtime.RemoveContainer(ctx, containerID)
	})
}

// ContainerStatus implements cri.RuntimeService.
func (s *services) ContainerStatus(ctx context.Context, containerID string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return through(ctx, s, "ContainerStatus", about{container: containerID}, func(ctx context.Context) (*runtimeapi.ContainerStatusResponse, error) {
		return s.runtime.ContainerStatus(ctx, containerID, verbose)
	})
}

// ListContainers implements cri.RuntimeService.
func (s *services) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return through(ctx, s, "ListContainers", about{}, func(ctx context.Context) ([]*runtimeapi.Container, error) {
		return s.runtime.ListContainers(ctx, filter)
	})
}

// UpdateContainerResources implements cri.RuntimeService.
func (s *services) UpdateContainerResources(ctx context.Context, request *runtimeapi.UpdateContainerResourcesRequest) error {
	return throughNothing(ctx, s, "UpdateContainerResources", about{container: request.GetContainerId()}, func(ctx context.Context) error {
		return s.runtime.UpdateContainerResources(ctx, request)
	})
}

// ReopenContainerLog implements cri.RuntimeService.
func (s *services) ReopenContainerLog(ctx context.Context, containerID string) error {
	return throughNothing(ctx, s, "ReopenContainerLog", about{container: containerID}, func(ctx context.Context) error {
		return s.runtime.ReopenContainerLog(ctx, containerID)
	})
}

// CheckpointContainer implements cri.RuntimeService.
func (s *services) CheckpointContainer(ctx context.Context, request *runtimeapi.CheckpointContainerRequest) error {
	return throughNothing(ctx, s, "CheckpointContainer", about{container: request.GetContainerId()}, func(ctx context.Context) error {
		return s.runtime.CheckpointContainer(ctx, request)
	})
}

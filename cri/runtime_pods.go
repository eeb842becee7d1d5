package cri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunPodSandbox implements SandboxRunner.
func (c *RuntimeClient) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	reply, err := unary(ctx, c.link.call("RunPodSandbox", "run_podsandbox").within(2*c.link.cfg.RequestTimeout), c.api.RunPodSandbox,
		&runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	return reply.GetPodSandboxId(), err
}

// StopPodSandbox implements SandboxRunner.
func (c *RuntimeClient) StopPodSandbox(ctx context.Context, sandboxID string) error {
	_, err := unary(ctx, c.link.call("StopPodSandbox", "stop_podsandbox"), c.api.StopPodSandbox,
		&runtimeapi.StopPodSandboxRequest{PodSandboxId: sandboxID})
	return err
}

// RemovePodSandbox implements SandboxRunner.
func (c *RuntimeClient) RemovePodSandbox(ctx context.Context, sandboxID string) error {
	_, err := unary(ctx, c.link.call("RemovePodSandbox", "remove_podsandbox"), c.api.RemovePodSandbox,
		&runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandboxID})
	return err
}

// PodSandboxStatus implements SandboxReader.
func (c *RuntimeClient) PodSandboxStatus(ctx context.Context, sandboxID string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return unary(ctx, c.link.call("PodSandboxStatus", "podsandbox_status"), c.api.PodSandboxStatus,
		&runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandboxID, Verbose: verbose})
}

// ListPodSandbox implements SandboxReader.
func (c *RuntimeClient) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return list(ctx, c.link.call("ListPodSandbox", "list_podsandbox"),
		func(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
			stream, err := c.api.StreamPodSandboxes(ctx, &runtimeapi.StreamPodSandboxesRequest{Filter: filter})
			return collect(stream, err, (*runtimeapi.StreamPodSandboxesResponse).GetPodSandboxes)
		},
		func(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
			reply, err := c.api.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: filter})
			return reply.GetItems(), err
		})
}

// UpdatePodSandboxResources implements ResourceUpdater.
func (c *RuntimeClient) UpdatePodSandboxResources(ctx context.Context, request *runtimeapi.UpdatePodSandboxResourcesRequest) error {
	_, err := unary(ctx, c.link.call("UpdatePodSandboxResources", "update_podsandbox_resources"), c.api.UpdatePodSandboxResources, request)
	return err
}

// CreateContainer implements ContainerRunner.
func (c *RuntimeClient) CreateContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	reply, err := unary(ctx, c.link.call("CreateContainer", "create_container"), c.api.CreateContainer,
		&runtimeapi.CreateContainerRequest{PodSandboxId: sandboxID, Config: config, SandboxConfig: sandboxConfig})
	return reply.GetContainerId(), err
}

// StartContainer implements ContainerRunner.
func (c *RuntimeClient) StartContainer(ctx context.Context, containerID string) error {
	_, err := unary(ctx, c.link.call("StartContainer", "start_container"), c.api.StartContainer,
		&runtimeapi.StartContainerRequest{ContainerId: containerID})
	return err
}

// StopContainer implements ContainerRunner.
func (c *RuntimeClient) StopContainer(ctx context.Context, containerID string, grace time.Duration) error {
	grace = min(max(grace, 0), longest)
	seconds := (grace + time.Second - 1) / time.Second
	_, err := unary(ctx, c.link.call("StopContainer", "stop_container").within(c.link.cfg.RequestTimeout+seconds*time.Second), c.api.StopContainer,
		&runtimeapi.StopContainerRequest{ContainerId: containerID, Timeout: int64(seconds)})
	return err
}

// RemoveContainer implements ContainerRunner.
func (c *RuntimeClient) RemoveContainer(ctx context.Context, containerID string) error {
	_, err := unary(ctx, c.link.call("RemoveContainer", "remove_container"), c.api.RemoveContainer,
		&runtimeapi.RemoveContainerRequest{ContainerId: containerID})
	return err
}

// ContainerStatus implements ContainerReader.
func (c *RuntimeClient) ContainerStatus(ctx context.Context, containerID string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return unary(ctx, c.link.call("ContainerStatus", "container_status"), c.api.ContainerStatus,
		&runtimeapi.ContainerStatusRequest{ContainerId: containerID, Verbose: verbose})
}

// ListContainers implements ContainerReader.
func (c *RuntimeClient) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return list(ctx, c.link.call("ListContainers", "list_containers"),
		func(ctx context.Context) ([]*runtimeapi.Container, error) {
			stream, err := c.api.StreamContainers(ctx, &runtimeapi.StreamContainersRequest{Filter: filter})
			return collect(stream, err, (*runtimeapi.StreamContainersResponse).GetContainers)
		},
		func(ctx context.Context) ([]*runtimeapi.Container, error) {
			reply, err := c.api.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
			return reply.GetContainers(), err
		})
}

// UpdateContainerResources implements ResourceUpdater.
func (c *RuntimeClient) UpdateContainerResources(ctx context.Context, request *runtimeapi.UpdateContainerResourcesRequest) error {
	_, err := unary(ctx, c.link.call("UpdateContainerResources", "update_container"), c.api.UpdateContainerResources, request)
	return err
}

// ReopenContainerLog implements LogReopener.
func (c *RuntimeClient) ReopenContainerLog(ctx context.Context, containerID string) error {
	_, err := unary(ctx, c.link.call("ReopenContainerLog", "reopen_container_log"), c.api.ReopenContainerLog,
		&runtimeapi.ReopenContainerLogRequest{ContainerId: containerID})
	return err
}

// CheckpointContainer implements Checkpointer. Its deadline is the larger of RequestTimeout and
// the request's timeout.
func (c *RuntimeClient) CheckpointContainer(ctx context.Context, request *runtimeapi.CheckpointContainerRequest) error {
	own := time.Duration(min(request.GetTimeout(), int64(longest/time.Second))) * time.Second
	_, err := unary(ctx, c.link.call("CheckpointContainer", "checkpoint_container").within(max(own, c.link.cfg.RequestTimeout)), c.api.CheckpointContainer, request)
	return err
}

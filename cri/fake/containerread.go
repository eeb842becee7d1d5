package fake

import (
	"cmp"
	"context"
	"iter"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerStatus returns the status of a container.
func (rt *Runtime) ContainerStatus(ctx context.Context, containerID string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	request := &runtimeapi.ContainerStatusRequest{ContainerId: containerID, Verbose: verbose}
	if err := rt.enter(ctx, "ContainerStatus", request); err != nil {
		return nil, err
	}
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	c := rt.store.containers[containerID]
	if c == nil {
		return nil, noContainer(containerID)
	}
	response := &runtimeapi.ContainerStatusResponse{Status: c.status()}
	if !verbose {
		return response, nil
	}
	var err error
	response.Info, err = info(map[string]any{
		"sandboxID": c.sandbox.id, "removing": c.removing, "starting": c.starting, "config": c.fullConfig(),
	})
	return response, err
}

// ListContainers lists containers in every state, oldest first.
func (rt *Runtime) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	if err := rt.enter(ctx, "ListContainers", &runtimeapi.ListContainersRequest{Filter: filter}); err != nil {
		return nil, err
	}
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	return listed(rt.selectContainers(filter)), nil
}

// selectContainers returns the containers that match filter, oldest first. The caller holds rt.mu.
func (rt *Runtime) selectContainers(filter *runtimeapi.ContainerFilter) []*container {
	return selected(rt.containerCandidates(filter), func(c *container) bool { return c.matches(filter) })
}

// selectSandboxes is selectContainers for sandboxes.
func (rt *Runtime) selectSandboxes(filter *runtimeapi.PodSandboxFilter) []*sandbox {
	return selected(rt.sandboxCandidates(filter), func(b *sandbox) bool { return b.matches(filter) })
}

func selected[T any](candidates iter.Seq[T], matches func(T) bool) (out []T) {
	for item := range candidates {
		if matches(item) {
			out = append(out, item)
		}
	}
	return out
}

// containerCandidates iterates over the smallest index that contains all matches of a filter.
func (rt *Runtime) containerCandidates(filter *runtimeapi.ContainerFilter) iter.Seq[*container] {
	if id := filter.GetId(); id != "" {
		return only(rt.store.containers[id])
	}
	if id := filter.GetPodSandboxId(); id != "" {
		return cmp.Or(rt.store.sandboxes[id], &sandbox{}).containers.all()
	}
	if uid := filter.GetLabelSelector()[labelPodUID]; uid != "" {
		return cmp.Or(rt.store.pods[uid], &podIndex{}).containers.all()
	}
	return rt.store.all.all()
}

// sandboxCandidates is containerCandidates for sandboxes.
func (rt *Runtime) sandboxCandidates(filter *runtimeapi.PodSandboxFilter) iter.Seq[*sandbox] {
	if id := filter.GetId(); id != "" {
		return only(rt.store.sandboxes[id])
	}
	if uid := filter.GetLabelSelector()[labelPodUID]; uid != "" {
		return cmp.Or(rt.store.pods[uid], &podIndex{}).sandboxes.all()
	}
	return rt.store.allSandboxes.all()
}

// only iterates over one item, or over none if it is nil.
func only[T any](item *T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		if item != nil {
			yield(item)
		}
	}
}

// UpdateContainerResources records new resources of a created or running container; zero fields
// stay unchanged. ContainerStatus shows the result. The resources are not enforced.
func (rt *Runtime) UpdateContainerResources(ctx context.Context, request *runtimeapi.UpdateContainerResourcesRequest) error {
	if err := rt.enter(ctx, "UpdateContainerResources", request); err != nil {
		return err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c := rt.store.containers[request.GetContainerId()]
	if c == nil {
		return noContainer(request.GetContainerId())
	}
	if c.removing || c.state == runtimeapi.ContainerState_CONTAINER_EXITED {
		return status.Errorf(codes.FailedPrecondition, "failed to update resources: container %q is in %v state", c.id, c.state)
	}
	merged := &runtimeapi.LinuxContainerResources{} // the old message may be in use
	proto.Merge(merged, c.resources)
	proto.Merge(merged, request.GetLinux())
	c.resources = merged
	return nil
}

// ReopenContainerLog opens the log of a running container anew.
func (rt *Runtime) ReopenContainerLog(ctx context.Context, containerID string) error {
	request := &runtimeapi.ReopenContainerLogRequest{ContainerId: containerID}
	if err := rt.enter(ctx, "ReopenContainerLog", request); err != nil {
		return err
	}
	rt.mu.RLock()
	c := rt.store.containers[containerID]
	var log *logFile
	if c != nil {
		log = c.log
	}
	rt.mu.RUnlock()
	switch {
	case c == nil:
		return noContainer(containerID)
	case log == nil:
		return status.Error(codes.FailedPrecondition, "container is not running")
	}
	if err := log.reopen(); err != nil {
		return status.Errorf(codes.Unknown, "failed to reopen container log %q: %v", c.logPath, err)
	}
	return nil
}

// Signal sends a signal, by its Linux number, to a running container from outside, like kill(1) on
// the node. It is not a CRI call and does not wait. Signal 0 only checks whether the container
// runs.
func (rt *Runtime) Signal(containerID string, signal syscall.Signal) error {
	if signal < 0 || signal > sigMax {
		return status.Errorf(codes.InvalidArgument, "unknown signal %d", signal)
	}
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	c := rt.store.containers[containerID]
	if c == nil {
		return noContainer(containerID)
	}
	if c.task == nil {
		return status.Error(codes.FailedPrecondition, "container is not running")
	}
	switch signal {
	case 0:
	case sigKill:
		c.task.kill()
	default:
		c.task.signal(signal)
	}
	return nil
}

package fake

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunPodSandbox makes a sandbox, which is ready at once. Its name (pod name, namespace, UID and
// attempt) must not be in use (AlreadyExists). A handler that is not in Config.Handlers fails with
// code Unknown.
func (rt *Runtime) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	request := &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler}
	if err := rt.enter(ctx, "RunPodSandbox", request); err != nil {
		return "", err
	}
	if err := checkSandboxConfig(config); err != nil {
		return "", err
	}
	if handler != "" && !slices.Contains(rt.cfg.Handlers, handler) {
		return "", status.Errorf(codes.Unknown, "failed to get sandbox runtime: no runtime for %q is configured", handler)
	}
	b := &sandbox{
		id: newID(), name: nameOfSandbox(config.Metadata), config: clone(config), handler: handler,
		hostNet: hostNetwork(config), sandboxState: sandboxState{ready: true},
	}
	b.resources = b.config.GetLinux().GetResources()
	b.overhead = b.config.GetLinux().GetOverhead()

	rt.mu.Lock()
	defer rt.mu.Unlock()
	if holder, taken := rt.store.sandboxNames[b.name]; taken {
		return "", status.Errorf(codes.AlreadyExists, "failed to reserve sandbox name %q: name %q is reserved for %q", b.name, b.name, holder)
	}
	if !b.hostNet {
		ips, err := rt.addresses.take()
		if err != nil {
			return "", status.Errorf(codes.Unknown, "failed to setup network for sandbox %q: %v", b.id, err)
		}
		b.ips = ips
	}
	b.createdAt = rt.now().UnixNano()
	rt.store.addSandbox(b)
	rt.emitSandbox(b, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	rt.emitSandbox(b, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return b.id, nil
}

// sandbox returns a sandbox, or nil.
func (rt *Runtime) sandbox(id string) *sandbox {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	return rt.store.sandboxes[id]
}

// StopPodSandbox kills the sandbox's containers and releases its addresses. It returns NotFound for
// an unknown sandbox, as with containerd 1.6 (2.2 returns no error).
func (rt *Runtime) StopPodSandbox(ctx context.Context, sandboxID string) error {
	request := &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandboxID}
	if err := rt.enter(ctx, "StopPodSandbox", request); err != nil {
		return err
	}
	b := rt.sandbox(sandboxID)
	if b == nil {
		return noSandbox(sandboxID)
	}
	return rt.stopSandbox(ctx, b, rt.await)
}

// stopSandbox kills the sandbox's containers until none runs, and takes the sandbox down.
func (rt *Runtime) stopSandbox(ctx context.Context, b *sandbox, await func(context.Context, *task) error) error {
	for {
		tasks := rt.stopOrTasks(b)
		if len(tasks) == 0 {
			return nil
		}
		for _, t := range tasks {
			t.kill()
		}
		for _, t := range tasks {
			if err := await(ctx, t); err != nil {
				return err
			}
		}
	}
}

// stopOrTasks forbids further starts. It takes the sandbox down if no container runs, and otherwise
// returns the running tasks.
func (rt *Runtime) stopOrTasks(b *sandbox) []*task {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.store.sandboxes[b.id] != b {
		return nil // its addresses may belong to another sandbox
	}
	b.stopping = true
	var tasks []*task
	for c := range b.containers.all() {
		if c.task != nil {
			tasks = append(tasks, c.task)
		}
	}
	if len(tasks) == 0 {
		rt.sandboxDown(b)
	}
	return tasks
}

// sandboxDown releases the sandbox's addresses and marks it not ready. The caller holds rt.mu.
func (rt *Runtime) sandboxDown(b *sandbox) {
	wasReady := b.ready
	b.ready, b.stopping = false, true
	b.cutForwards()
	rt.addresses.give(b.ips)
	b.ips = nil
	if !wasReady {
		return
	}
	rt.emitSandbox(b, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// RemovePodSandbox stops the sandbox and removes it with its containers. An unknown sandbox is no
// error.
func (rt *Runtime) RemovePodSandbox(ctx context.Context, sandboxID string) error {
	request := &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandboxID}
	if err := rt.enter(ctx, "RemovePodSandbox", request); err != nil {
		return err
	}
	b := rt.sandbox(sandboxID)
	if b == nil {
		return removedUnknown(sandboxID, noSandbox)
	}
	for {
		if err := rt.stopSandbox(ctx, b, rt.await); err != nil {
			return err
		}
		if done, err := rt.removeStopped(b); done || err != nil {
			return err
		}
	}
}

// removeStopped removes a stopped sandbox. It returns false if a start in progress added a program.
func (rt *Runtime) removeStopped(b *sandbox) (done bool, err error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.store.sandboxes[b.id] != b {
		return true, nil
	}
	for c := range b.containers.all() {
		if c.starting {
			return false, starting(c)
		}
		if c.task != nil {
			return false, nil
		}
	}
	for b.containers.head != nil {
		rt.forget(b.containers.head.item)
	}
	rt.emitSandbox(b, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	rt.store.removeSandbox(b)
	return true, nil
}

// PodSandboxStatus returns the status of a sandbox.
func (rt *Runtime) PodSandboxStatus(ctx context.Context, sandboxID string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	request := &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandboxID, Verbose: verbose}
	if err := rt.enter(ctx, "PodSandboxStatus", request); err != nil {
		return nil, err
	}
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	b := rt.store.sandboxes[sandboxID]
	if b == nil {
		return nil, noSandbox(sandboxID)
	}
	response := &runtimeapi.PodSandboxStatusResponse{Status: b.status()}
	if rt.Lacks("GetContainerEvents") == nil {
		response.ContainersStatuses = statuses(b.seen())
		response.Timestamp = rt.now().UnixNano()
	}
	if !verbose {
		return response, nil
	}
	var err error
	response.Info, err = info(map[string]any{
		"config": b.config, "runtimeHandler": b.handler, "resources": b.resources, "overhead": b.overhead,
	})
	return response, err
}

// ListPodSandbox lists sandboxes, oldest first.
func (rt *Runtime) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	if err := rt.enter(ctx, "ListPodSandbox", &runtimeapi.ListPodSandboxRequest{Filter: filter}); err != nil {
		return nil, err
	}
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	return listedSandboxes(rt.selectSandboxes(filter)), nil
}

// UpdatePodSandboxResources records the pod's resources, which a verbose sandbox status shows.
func (rt *Runtime) UpdatePodSandboxResources(ctx context.Context, request *runtimeapi.UpdatePodSandboxResourcesRequest) error {
	if err := rt.enter(ctx, "UpdatePodSandboxResources", request); err != nil {
		return err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	b := rt.store.sandboxes[request.GetPodSandboxId()]
	if b == nil {
		return noSandbox(request.GetPodSandboxId())
	}
	if request.GetResources() != nil {
		b.resources = clone(request.GetResources())
	}
	if request.GetOverhead() != nil {
		b.overhead = clone(request.GetOverhead())
	}
	return nil
}

// CrashSandbox ends a sandbox from outside, as the death of its process or a reboot of the node
// does: it kills every container in it, releases its addresses and marks it not ready. It returns
// when this is done.
func (rt *Runtime) CrashSandbox(ctx context.Context, sandboxID string) error {
	b := rt.sandbox(sandboxID)
	if b == nil {
		return noSandbox(sandboxID)
	}
	return rt.stopSandbox(ctx, b, await)
}

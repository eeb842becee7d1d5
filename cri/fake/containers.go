package fake

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CreateContainer makes a container in state created. Its image must be present (NotFound). Its
// name (container name, pod and attempt) must not be in use (AlreadyExists), and the sandbox must
// be ready (FailedPrecondition). sandboxConfig must have metadata, but the sandbox's own config
// applies.
func (rt *Runtime) CreateContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	request := &runtimeapi.CreateContainerRequest{PodSandboxId: sandboxID, Config: config, SandboxConfig: sandboxConfig}
	if err := rt.enter(ctx, "CreateContainer", request); err != nil {
		return "", err
	}
	if err := checkContainerConfig(config, sandboxConfig); err != nil {
		return "", err
	}
	image, ok := rt.images.resolve(config.Image.Image)
	if !ok {
		return "", status.Errorf(codes.NotFound, "failed to resolve image %q: not found", config.Image.Image)
	}
	c := &container{
		id: newID(), config: copyContainerConfig(config), env: envOf(config.Envs), image: image, stopSignal: stopSignal(config.StopSignal),
		containerState: containerState{state: runtimeapi.ContainerState_CONTAINER_CREATED},
	}
	c.resources = c.config.GetLinux().GetResources()
	if err := rt.addContainer(c, sandboxID); err != nil {
		return "", err
	}
	return c.id, nil
}

func (rt *Runtime) addContainer(c *container, sandboxID string) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	b := rt.store.sandboxes[sandboxID]
	if b == nil {
		return status.Errorf(codes.NotFound, "failed to find sandbox id %q: not found", sandboxID)
	}
	c.sandbox = b
	c.name = nameOfContainer(c.config.Metadata, b.config.Metadata)
	if holder, taken := rt.store.names[c.name]; taken {
		return status.Errorf(codes.AlreadyExists, "failed to reserve container name %q: name %q is reserved for %q", c.name, c.name, holder)
	}
	if !b.ready || b.stopping {
		return status.Errorf(codes.FailedPrecondition, "sandbox %q is not ready", sandboxID)
	}
	c.logPath = logPathOf(b.config, c.config)
	c.createdAt = rt.now().UnixNano()
	rt.store.addContainer(c)
	rt.emit(c, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return nil
}

// containerExited records the end of a container's program.
func (rt *Runtime) containerExited(c *container, e exit) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c.ended(e, rt.now().UnixNano())
	c.endedUnseen = rt.down
	for t := range c.execs {
		t.kill()
	}
	rt.emit(c, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// StopContainer sends the container's stop signal, unless an earlier call did, and kills the
// container after grace. It returns nil if the container does not run, and NotFound for an unknown
// one, as with containerd 1.6 (2.2 returns no error). If ctx ends first, the container keeps
// running with the signal.
func (rt *Runtime) StopContainer(ctx context.Context, containerID string, grace time.Duration) error {
	grace = wholeSeconds(grace)
	request := &runtimeapi.StopContainerRequest{ContainerId: containerID, Timeout: int64(grace / time.Second)}
	if err := rt.enter(ctx, "StopContainer", request); err != nil {
		return err
	}
	rt.mu.Lock()
	c := rt.store.containers[containerID]
	if c == nil || !c.running() {
		rt.mu.Unlock()
		if c == nil {
			return noContainer(containerID)
		}
		return nil
	}
	t := c.task
	signal := grace > 0 && !c.signalled
	c.signalled = c.signalled || signal
	rt.mu.Unlock()
	if signal {
		t.signal(c.stopSignal)
	}
	return rt.stopTask(ctx, t, grace)
}

func (rt *Runtime) stopTask(ctx context.Context, t *task, grace time.Duration) error {
	if grace > 0 {
		l := rt.currentLife()
		timer := time.NewTimer(grace)
		defer timer.Stop()
		over := timer.C
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= grace {
			over = nil // ctx ends first, but a paused process may find both ended
		}
		select {
		case <-t.done:
			return nil
		case <-ctx.Done():
			return callEnded(ctx)
		case <-l.ctx.Done():
			return callEnded(l.ctx)
		case <-over:
		}
	}
	t.kill()
	return rt.await(ctx, t)
}

// wholeSeconds rounds up to seconds, at least to zero.
func wholeSeconds(d time.Duration) time.Duration {
	whole := d.Truncate(time.Second)
	if whole < d && whole <= math.MaxInt64-time.Second {
		whole += time.Second
	}
	return max(0, whole)
}

// RemoveContainer kills and removes a container. An unknown container is no error. It fails with
// FailedPrecondition while StartContainer runs.
func (rt *Runtime) RemoveContainer(ctx context.Context, containerID string) error {
	request := &runtimeapi.RemoveContainerRequest{ContainerId: containerID}
	if err := rt.enter(ctx, "RemoveContainer", request); err != nil {
		return err
	}
	rt.mu.Lock()
	c := rt.store.containers[containerID]
	if c == nil {
		rt.mu.Unlock()
		return removedUnknown(containerID, noContainer)
	}
	if c.starting {
		rt.mu.Unlock()
		return starting(c)
	}
	c.removing = true
	t := c.task
	rt.mu.Unlock()

	var err error
	if t != nil {
		err = rt.stopTask(ctx, t, 0)
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c.removing = false
	if err == nil && rt.store.containers[containerID] == c {
		rt.forget(c)
	}
	return err
}

func starting(c *container) error {
	return status.Errorf(codes.FailedPrecondition, "failed to set removing state for container %q: container is in starting state, can't be removed", c.id)
}

// forget removes a container that does not run. The caller holds rt.mu.
func (rt *Runtime) forget(c *container) {
	rt.store.removeContainer(c)
	rt.emit(c, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
}

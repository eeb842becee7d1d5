package fake

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CreateContainer makes a container in state created. Its image must be present
// (NotFound) and its name, that is container name, pod and attempt, must not be
// in use (AlreadyExists). The sandbox's own config counts, not sandboxConfig.
func (rt *Runtime) CreateContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	request := &runtimeapi.CreateContainerRequest{PodSandboxId: sandboxID, Config: config, SandboxConfig: sandboxConfig}
	if err := rt.enter(ctx, "CreateContainer", request); err != nil {
		return "", err
	}
	if config.GetMetadata().GetName() == "" {
		return "", status.Error(codes.InvalidArgument, "container config must include metadata with a name")
	}
	if config.GetImage().GetImage() == "" {
		return "", status.Error(codes.InvalidArgument, "container config must name an image")
	}
	image, ok := rt.images.resolve(config.Image.Image)
	if !ok {
		return "", status.Errorf(codes.NotFound, "failed to resolve image %q: not found", config.Image.Image)
	}
	c := &container{
		id: newID(), config: clone(config), image: image, stopSignal: stopSignal(config.StopSignal),
		state: runtimeapi.ContainerState_CONTAINER_CREATED,
	}
	c.resources = c.config.GetLinux().GetResources()
	return c.id, rt.addContainer(c, sandboxID)
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
	c.createdAt = time.Now().UnixNano()
	rt.store.addContainer(c)
	rt.emit(c, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return nil
}

// StartContainer runs the container's program. A container can be started once;
// when its program cannot be, it exits with code 128 and reason StartError.
func (rt *Runtime) StartContainer(ctx context.Context, containerID string) error {
	request := &runtimeapi.StartContainerRequest{ContainerId: containerID}
	if err := rt.enter(ctx, "StartContainer", request); err != nil {
		return err
	}
	c, err := rt.beginStart(containerID)
	if err != nil {
		return err
	}
	defer rt.starts.Done()
	if err := rt.start(ctx, c); err != nil {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		c.starting = false
		c.notStarted(err, time.Now().UnixNano())
		return err
	}
	return nil
}

// beginStart claims the container, so that nobody else starts or removes it.
func (rt *Runtime) beginStart(id string) (*container, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c := rt.store.containers[id]
	switch {
	case rt.closed:
		return nil, closedError()
	case c == nil:
		return nil, noContainer(id)
	case c.state != runtimeapi.ContainerState_CONTAINER_CREATED:
		return nil, status.Errorf(codes.FailedPrecondition, "failed to set starting state for container %q: container is in %v state", id, c.state)
	case c.removing:
		return nil, status.Errorf(codes.FailedPrecondition, "failed to set starting state for container %q: container is in removing state, can't be started", id)
	case c.starting:
		return nil, status.Errorf(codes.FailedPrecondition, "failed to set starting state for container %q: container is already in starting state", id)
	}
	c.starting = true
	rt.starts.Add(1)
	return c, nil
}

// start finds the program and runs it. The container is claimed.
func (rt *Runtime) start(ctx context.Context, c *container) error {
	rt.mu.RLock()
	up := c.sandbox.ready && !c.sandbox.stopping
	p := c.process(commandLine(c.config))
	rt.mu.RUnlock()
	if !up {
		return status.Errorf(codes.FailedPrecondition, "sandbox container %q is not running", c.sandbox.id)
	}
	log, err := openContainerLog(c.logPath, rt.cfg.OpenLog)
	if err != nil {
		return status.Errorf(codes.Unknown, "failed to create container loggers: failed to open container log %q: %v", c.logPath, err)
	}
	stdout := &logStream{name: "stdout", log: log, drop: c.logPath == ""}
	stderr := &logStream{name: "stderr", log: log, drop: c.logPath == ""}
	p.Stdout, p.Stderr, p.task = stdout, stderr, newTask()
	closeLog := func() {
		stdout.close()
		stderr.close()
		if err := log.close(); err != nil {
			rt.cfg.Logger.Warn("a container log cannot be closed", "path", c.logPath, "error", err)
		}
	}
	program, err := rt.cfg.Programs(ctx, p)
	if err != nil {
		closeLog()
		return &callError{
			code:  codes.Unknown,
			text:  fmt.Sprintf("failed to start container %q: unable to start container process: %v", c.id, err),
			cause: err,
		}
	}
	rt.watch(p.task, c.name.String, func(e exit) {
		closeLog()
		rt.containerExited(c, e)
	})
	return rt.launch(c, p, program, log)
}

// launch makes the container run, unless its sandbox or the runtime was stopped
// while the program was being found; then the program runs only to clean up.
func (rt *Runtime) launch(c *container, p *Process, program Program, log *logFile) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	down := rt.closed || !c.sandbox.ready || c.sandbox.stopping
	c.starting = false
	c.task, c.log = p.task, log
	c.startedAt = time.Now().UnixNano()
	c.state = runtimeapi.ContainerState_CONTAINER_RUNNING
	rt.emit(c, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	if down {
		p.task.kill(rt.cfg.KillTimeout)
	}
	go p.task.run(program, p)
	return nil
}

// containerExited records the end of a container's program.
func (rt *Runtime) containerExited(c *container, e exit) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c.ended(e, time.Now().UnixNano())
	for t := range c.execs {
		t.kill(rt.cfg.KillTimeout)
	}
	rt.emit(c, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// StopContainer sends the container's stop signal, unless an earlier call did,
// and kills what still runs after grace. A container that does not run, or does
// not exist, is as good as stopped. When ctx ends first the container is left
// with the signal.
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
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-t.done:
			return nil
		case <-ctx.Done():
			return contextError(ctx.Err())
		case <-timer.C:
		}
	}
	t.kill(rt.cfg.KillTimeout)
	return await(ctx, t)
}

// wholeSeconds rounds up, never below zero.
func wholeSeconds(d time.Duration) time.Duration {
	return max(0, (d+time.Second-1)/time.Second*time.Second)
}

// RemoveContainer removes a container, killing it first when it runs. An unknown
// container is as good as removed.
func (rt *Runtime) RemoveContainer(ctx context.Context, containerID string) error {
	request := &runtimeapi.RemoveContainerRequest{ContainerId: containerID}
	if err := rt.enter(ctx, "RemoveContainer", request); err != nil {
		return err
	}
	rt.mu.Lock()
	c := rt.store.containers[containerID]
	if c == nil {
		rt.mu.Unlock()
		return nil
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

// forget removes a container that does not run. rt.mu is held.
func (rt *Runtime) forget(c *container) {
	rt.store.removeContainer(c)
	rt.emit(c, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
}

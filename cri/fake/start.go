package fake

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

// A StartFailure is an error of a Resolver that sets the status of a container that could not
// start. Any other error acts as a StartFailure with only its text as Message.
type StartFailure struct {
	// Reason is the container's reason. Default: "StartError", as in containerd; other runtimes use
	// "ContainerCannotRun".
	Reason string
	// Code is the container's exit code. Default: 128, as in containerd. Docker uses 127 for a
	// missing executable and 126 if it cannot be executed.
	Code int32
	// Message is the cause. StartContainer's error ends with it, and the container's message is the
	// text of that error.
	Message string
}

// Error returns the message.
func (e *StartFailure) Error() string { return e.Message }

// startFailed returns the status of the container and the error of the call after a failed start:
// real runtimes use the same text in both.
func startFailed(cause error) (failure StartFailure, err error) {
	var custom *StartFailure
	if errors.As(cause, &custom) {
		failure = *custom
	}
	fields.Default(&failure.Reason, reasonStartError)
	fields.Default(&failure.Code, exitStartError)
	err = cause
	if _, known := status.FromError(cause); !known {
		text := "failed to create containerd task: failed to create shim task: OCI runtime create failed: " +
			"runc create failed: unable to start container process: " + cause.Error()
		err = &callError{code: codes.Unknown, text: text, cause: cause}
	}
	failure.Message = status.Convert(err).Message()
	return failure, err
}

// notStarted sets the state after a failed start.
func (c *container) notStarted(failure StartFailure, now int64) {
	c.state = runtimeapi.ContainerState_CONTAINER_EXITED
	c.finishedAt, c.exitCode = now, failure.Code
	c.reason, c.message = failure.Reason, failure.Message
}

// StartContainer runs the container's program. A container can be started once; then it fails
// with FailedPrecondition. If its program cannot be started, the container exits with code 128 and
// reason StartError, unless the Resolver returns a StartFailure with other values.
func (rt *Runtime) StartContainer(ctx context.Context, containerID string) error {
	request := &runtimeapi.StartContainerRequest{ContainerId: containerID}
	if err := rt.enter(ctx, "StartContainer", request); err != nil {
		return err
	}
	c, l, err := rt.beginStart(containerID)
	if err != nil {
		return err
	}
	defer rt.starts.end(c)
	err = rt.start(ctx, l, c)
	if err == nil {
		return nil
	}
	failure, err := startFailed(err)
	rt.mu.Lock()
	defer rt.mu.Unlock()
	c.starting = false
	if l.ctx.Err() != nil {
		return callEnded(l.ctx) // a stopped runtime records no state
	}
	c.notStarted(failure, rt.now().UnixNano())
	return err
}

// beginStart reserves the container, so that other calls cannot start or remove it.
func (rt *Runtime) beginStart(id string) (*container, *life, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if err := rt.unavailable(); err != nil {
		return nil, nil, err
	}
	c := rt.store.containers[id]
	problem := ""
	switch {
	case c == nil:
		return nil, nil, noContainer(id)
	case c.state != runtimeapi.ContainerState_CONTAINER_CREATED:
		problem = fmt.Sprintf("in %v state", c.state)
	case c.removing:
		problem = "in removing state, can't be started"
	case c.starting:
		problem = "already in starting state"
	}
	if problem != "" {
		return nil, nil, status.Errorf(codes.FailedPrecondition,
			"failed to set starting state for container %q: container is %s", id, problem)
	}
	c.starting = true
	rt.starts.begin(c)
	return c, rt.life, nil
}

// launch is a start in progress, with the resources of the process.
type launch struct {
	container *container
	life      *life
	lost      bool // the runtime stopped meanwhile

	program Program
	process Process
	task    task
	log     containerLog
	streams containerIO
}

func (of *launch) name() string { return of.container.name.String() }

// ended handles the end of the program.
func (of *launch) ended(e exit) {
	if e.abandoned {
		of.log.abandon()
	} else {
		of.log.endInTime()
	}
	of.streams.release()
	if !of.lost {
		of.task.rt.containerExited(of.container, e)
	}
}

// start resolves the program and runs it. The caller has reserved the container.
func (rt *Runtime) start(ctx context.Context, l *life, c *container) error {
	of := &launch{container: c, life: l}
	rt.mu.RLock()
	up := c.sandbox.ready && !c.sandbox.stopping
	of.process = c.process(commandLine(c.config))
	rt.mu.RUnlock()
	if !up {
		return status.Errorf(codes.FailedPrecondition, "sandbox container %q is not running", c.sandbox.id)
	}
	if err := rt.openLog(&of.log, c.logPath); err != nil {
		return status.Errorf(codes.Unknown, "failed to create containerd task: failed to create container loggers: failed to open container log %q: %v", c.logPath, err)
	}
	of.task.prepare(rt, of)
	of.process.task = &of.task
	of.streams.connect(c, &of.process, &of.log)
	var err error
	if of.program, err = rt.resolve(ctx, rt.cfg.Programs, &of.process); err != nil {
		of.log.end()
		of.task.cancel(context.Canceled) // ends the input, which the Resolver may use already
		return err
	}
	return rt.launch(of)
}

// launch runs the container, unless its sandbox was stopped during the call of the Resolver; then
// the program runs only to clean up. If the runtime itself stopped, the container stays unchanged.
func (rt *Runtime) launch(of *launch) error {
	b := of.container.sandbox
	rt.mu.Lock()
	of.lost = of.life.ctx.Err() != nil
	if !of.lost {
		rt.nowRuns(of)
	}
	if of.lost || !b.ready || b.stopping {
		of.task.kill()
	}
	rt.mu.Unlock()
	go of.task.run(of.program, &of.process)
	if of.lost {
		<-of.task.done
		return callEnded(of.life.ctx)
	}
	return nil
}

// nowRuns records that a container runs. The caller holds rt.mu.
func (rt *Runtime) nowRuns(of *launch) {
	c := of.container
	c.starting = false
	c.task, c.log, c.streams = &of.task, &of.log.logFile, &of.streams
	c.startedAt = rt.now().UnixNano()
	c.state = runtimeapi.ContainerState_CONTAINER_RUNNING
	rt.emit(c, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
}

// resolve calls a Resolver, with a context that ends with the call and the runtime. A panic becomes
// an error.
func (rt *Runtime) resolve(ctx context.Context, resolver Resolver, p *Process) (program Program, err error) {
	bounded, cancel := rt.currentLife().bound(ctx)
	defer cancel()
	err = run.Guard("the Resolver", func() (err error) {
		program, err = resolver(bounded, p)
		return err
	})
	if stack := run.StackOf(err); stack != "" {
		rt.cfg.Logger.Error("a Resolver panicked", "container", p.Container.Name, "err", err, "stack", stack)
	}
	switch {
	case err != nil:
		return nil, interceptError(bounded, err)
	case program == nil:
		return nil, errors.New("the Resolver returned no program")
	}
	return program, nil
}

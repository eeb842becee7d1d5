package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

// maxExecOutput bounds what is kept of each stream of an ExecSync.
const maxExecOutput = 16 << 20

// ExecSync runs a command, chosen by Config.Exec, in a running container. It is
// killed when its time is out and when the container exits.
func (rt *Runtime) ExecSync(ctx context.Context, containerID string, command []string, timeout time.Duration) ([]byte, []byte, error) {
	request := &runtimeapi.ExecSyncRequest{ContainerId: containerID, Cmd: command, Timeout: int64(timeout / time.Second)}
	if err := rt.enter(ctx, "ExecSync", request); err != nil {
		return nil, nil, err
	}
	if len(command) == 0 {
		return nil, nil, status.Error(codes.InvalidArgument, "exec command must not be empty")
	}
	run := &execution{stdout: &output{}, stderr: &output{}}
	if err := rt.beginExec(ctx, containerID, command, run); err != nil {
		return nil, nil, err
	}
	runCtx, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		runCtx, cancel = context.WithTimeoutCause(ctx, timeout, cri.ErrExecTimeout)
	}
	defer cancel()
	if err := await(runCtx, run.task); err != nil {
		run.task.kill(rt.cfg.KillTimeout)
		<-run.task.done
		return nil, nil, execTimedOut(runCtx, timeout, err)
	}
	stdout, stderr := run.stdout.bytes(), run.stderr.bytes()
	if run.exit.code != 0 {
		return stdout, stderr, &cri.ExitError{Code: run.exit.code, Stdout: stdout, Stderr: stderr}
	}
	return stdout, stderr, nil
}

func execTimedOut(ctx context.Context, timeout time.Duration, err error) error {
	if !errors.Is(context.Cause(ctx), cri.ErrExecTimeout) {
		return err
	}
	return &callError{
		code:  codes.DeadlineExceeded,
		text:  fmt.Sprintf("failed to exec in container: timeout %v exceeded: %v", timeout, cri.ErrExecTimeout),
		cause: cri.ErrExecTimeout,
	}
}

// execution is one command that runs in a container.
type execution struct {
	task           *task
	exit           exit // set before task.done is closed
	stdout, stderr *output
}

// beginExec finds the program of a command and runs it in the container.
func (rt *Runtime) beginExec(ctx context.Context, containerID string, command []string, run *execution) error {
	rt.mu.Lock()
	c := rt.store.containers[containerID]
	if err := rt.mayExec(c, containerID); err != nil {
		rt.mu.Unlock()
		return err
	}
	rt.starts.Add(1)
	defer rt.starts.Done()
	p := c.process(append([]string(nil), command...))
	rt.mu.Unlock()

	run.task = newTask()
	p.Exec, p.task, p.Stdout, p.Stderr = true, run.task, run.stdout, run.stderr
	program, err := rt.cfg.Exec(ctx, p)
	if err != nil {
		return &callError{
			code:  codes.Unknown,
			text:  fmt.Sprintf("failed to exec in container: failed to start exec: %v", err),
			cause: err,
		}
	}
	rt.watch(run.task, c.name.String, func(e exit) {
		run.exit = e
		run.stdout.close()
		run.stderr.close()
		rt.mu.Lock()
		defer rt.mu.Unlock()
		delete(c.execs, run.task)
	})
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if c.execs == nil {
		c.execs = map[*task]struct{}{}
	}
	c.execs[run.task] = struct{}{}
	if rt.closed || !c.running() {
		run.task.kill(rt.cfg.KillTimeout)
	}
	go run.task.run(program, p)
	return nil
}

// mayExec tells why nothing can be run in c. rt.mu is held.
func (rt *Runtime) mayExec(c *container, id string) error {
	switch {
	case rt.closed:
		return closedError()
	case c == nil:
		return noContainer(id)
	case !c.running():
		return status.Errorf(codes.FailedPrecondition, "failed to exec in container: container is in %v state", c.state)
	}
	return nil
}

// output keeps what a command writes, up to a bound.
type output struct {
	mu     sync.Mutex
	kept   bytes.Buffer
	closed bool
}

// Write keeps p as far as there is room and drops the rest.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, io.ErrClosedPipe
	}
	o.kept.Write(p[:min(len(p), maxExecOutput-o.kept.Len())])
	return len(p), nil
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept.Bytes()
}

// Exec is not implemented yet.
func (rt *Runtime) Exec(ctx context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if err := rt.enter(ctx, "Exec", request); err != nil {
		return nil, err
	}
	return nil, unimplemented("Exec")
}

// Attach is not implemented yet.
func (rt *Runtime) Attach(ctx context.Context, request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	if err := rt.enter(ctx, "Attach", request); err != nil {
		return nil, err
	}
	return nil, unimplemented("Attach")
}

// PortForward is not implemented yet.
func (rt *Runtime) PortForward(ctx context.Context, request *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	if err := rt.enter(ctx, "PortForward", request); err != nil {
		return nil, err
	}
	return nil, unimplemented("PortForward")
}

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

// maxExecOutput bounds the kept output of each stream of an ExecSync.
const maxExecOutput = 16 << 20

// ExecSync runs a command, selected by Config.Exec, in a running container. The command is killed
// at the timeout and when the container exits.
func (rt *Runtime) ExecSync(ctx context.Context, containerID string, command []string, timeout time.Duration) ([]byte, []byte, error) {
	request := &runtimeapi.ExecSyncRequest{ContainerId: containerID, Cmd: command, Timeout: int64(timeout / time.Second)}
	if err := rt.enter(ctx, "ExecSync", request); err != nil {
		return nil, nil, err
	}
	if len(command) == 0 {
		return nil, nil, status.Error(codes.InvalidArgument, "exec command must not be empty")
	}
	stdout, stderr := &output{}, &output{}
	run := &execution{stdout: stdout, stderr: stderr}
	if err := rt.beginExec(ctx, containerID, command, run); err != nil {
		return nil, nil, err
	}
	runCtx, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		runCtx, cancel = context.WithTimeoutCause(ctx, timeout, cri.ErrExecTimeout)
	}
	defer cancel()
	if err := rt.await(runCtx, &run.task); err != nil {
		if isDown(err) {
			return nil, nil, err // the command outlives the runtime
		}
		run.task.kill()
		<-run.task.done
		return nil, nil, execTimedOut(runCtx, timeout, err)
	}
	if run.exit.code != 0 {
		return stdout.bytes(), stderr.bytes(), &cri.ExitError{Code: run.exit.code, Stdout: stdout.bytes(), Stderr: stderr.bytes()}
	}
	return stdout.bytes(), stderr.bytes(), nil
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

type execution struct {
	container      *container
	task           task
	exit           exit       // set before task.done is closed
	stdin          *stdinPipe // nil: none
	stdout, stderr sink
	tty            bool
	resize         *resizer
}

// sink receives the output of a command until close.
type sink interface {
	io.Writer
	close()
}

func (run *execution) connect(p *Process) {
	p.Exec, p.task, p.Stdout, p.Stderr = true, &run.task, run.stdout, run.stderr
	if run.stdin != nil {
		p.Stdin = run.stdin
	}
	if run.tty {
		p.TTY, p.Resize = true, run.resize.sizes
	}
}

func (run *execution) name() string { return run.container.name.String() }

func (run *execution) ended(e exit) {
	run.exit = e
	run.stdout.close()
	run.stderr.close()
	rt := run.task.rt
	rt.mu.Lock()
	defer rt.mu.Unlock()
	delete(run.container.execs, &run.task)
	delete(rt.execs, &run.task)
}

func execFailed(err error) error {
	return &callError{
		code:  codes.Unknown,
		text:  fmt.Sprintf("failed to exec in container: failed to start exec: %v", err),
		cause: err,
	}
}

// beginExec resolves the program of a command and starts it in the container.
func (rt *Runtime) beginExec(ctx context.Context, containerID string, command []string, run *execution) error {
	rt.mu.Lock()
	c := rt.store.containers[containerID]
	if err := rt.mayExec(c, containerID); err != nil {
		rt.mu.Unlock()
		return err
	}
	rt.starts.begin(c)
	defer rt.starts.end(c)
	p := c.process(append([]string(nil), command...))
	rt.mu.Unlock()

	run.container = c
	run.task.prepare(rt, run)
	run.connect(&p)
	program, err := rt.resolve(ctx, rt.cfg.Exec, &p)
	if err != nil {
		return execFailed(err)
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if c.execs == nil {
		c.execs = map[*task]struct{}{}
	}
	c.execs[&run.task], rt.execs[&run.task] = struct{}{}, struct{}{}
	if rt.closed || !c.running() {
		run.task.kill()
	}
	go run.task.run(program, &p)
	return nil
}

// mayExec returns the reason that c cannot run commands, or nil. The caller holds rt.mu.
func (rt *Runtime) mayExec(c *container, id string) error {
	switch {
	case rt.unavailable() != nil:
		return rt.unavailable()
	case c == nil:
		return noContainer(id)
	case !c.running():
		return status.Errorf(codes.FailedPrecondition, "failed to exec in container: container is in %v state", c.state)
	}
	return nil
}

// output keeps the output of a command, up to maxExecOutput.
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

package fake

import (
	"context"
	"errors"
	"io"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Exec prepares a session with a command in a running container and returns its URL. A missing
// command is reported in the session. Without Config.Streams it is Unimplemented.
func (rt *Runtime) Exec(ctx context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if err := rt.enter(ctx, "Exec", request); err != nil {
		return nil, err
	}
	if rt.cfg.Streams == nil {
		return nil, unimplemented("Exec")
	}
	if err := rt.streamable(request.GetContainerId()); err != nil {
		return nil, err
	}
	return rt.cfg.Streams.GetExec(request)
}

var errNoArgs = errors.New("exec failed: args must not be empty")

// ExecSession runs a command, selected by Config.Exec, in a running container with the streams of a
// client. A StreamServer calls it. It returns the command's exit code; a non-zero code is no error.
// A command that dies with its container has code 137.
//
// If ctx ends, the command is killed and the error is the error of ctx, as in containerd 2 for a
// lost client (containerd 1.6 leaves the command running). If the runtime is stopped, the session
// ends and the command keeps running.
func (rt *Runtime) ExecSession(ctx context.Context, containerID string, command []string, s Session) (exitCode int, err error) {
	if len(command) == 0 {
		if err := rt.streamable(containerID); err != nil {
			return 0, err
		}
		return 0, execFailed(errNoArgs)
	}
	x := newExecStreams(&s)
	run := &execution{stdin: x.stdin, stdout: x.stdout, stderr: x.stderr, tty: s.TTY, resize: x.resize}
	l := rt.currentLife()
	if err := rt.beginExec(ctx, containerID, command, run); err != nil {
		x.release() // the Resolver may have started a use of the streams
		return 0, err
	}
	bounded, end := l.bound(ctx)
	defer end()
	// A killed command may wait for the client.
	context.AfterFunc(run.task.ctx, x.release)
	finish := x.serve(bounded, &s)
	err = await(bounded, &run.task)
	if err == nil {
		err = sessionEnded(ctx, l) // the end of either may have ended the command
	}
	if err != nil {
		if !isDown(err) {
			run.task.kill()
			<-run.task.done
		}
		x.release()
	}
	finish(end)
	if err != nil {
		return 0, err
	}
	return int(run.exit.code), nil
}

type execStreams struct {
	stdin          *stdinPipe // nil: none
	stdout, stderr *outputPipe
	resize         *resizer
}

func newExecStreams(s *Session) *execStreams {
	x := &execStreams{stdout: newOutputPipe(s.Stdout), stderr: newOutputPipe(s.Stderr)}
	if s.Stdin != nil {
		x.stdin = newStdinPipe()
	}
	if s.TTY {
		x.resize, x.stderr = newResizer(), x.stdout
	}
	return x
}

// serve starts to copy the streams. The returned function waits until all output is delivered, and
// calls end to cancel their context.
func (x *execStreams) serve(ctx context.Context, s *Session) (finish func(end func())) {
	var outputs, inputs sync.WaitGroup
	outputs.Go(x.stdout.deliver)
	if x.stderr != x.stdout {
		outputs.Go(x.stderr.deliver)
	}
	inputs.Go(func() { x.resize.follow(ctx, s.Resize) })
	if x.stdin != nil {
		s.feed(ctx, x.stdin, &inputs, x.stdin.end)
	}
	return func(end func()) {
		outputs.Wait()
		end()
		s.closeStdin()
		inputs.Wait()
	}
}

// release unblocks a command that waits for the client.
func (x *execStreams) release() {
	if x.stdin != nil {
		x.stdin.close()
	}
	x.stdout.close()
	x.stderr.close()
}

// outputPipe copies a command's output to a client. Unlike the client's own Write it can be closed.
// Completed writes are always delivered.
type outputPipe struct {
	*io.PipeWriter
	out *io.PipeReader
	to  io.Writer
}

func newOutputPipe(to io.Writer) *outputPipe {
	v := &outputPipe{to: to}
	if to == nil {
		v.to = io.Discard
	}
	v.out, v.PipeWriter = io.Pipe()
	return v
}

// deliver writes to the client until the outputPipe is closed or the client fails.
func (v *outputPipe) deliver() {
	_, err := io.Copy(v.to, v.out)
	_ = v.out.CloseWithError(err)
}

func (v *outputPipe) close() { _ = v.Close() }

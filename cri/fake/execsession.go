package fake

import (
	"context"
	"errors"
	"io"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Exec prepares a session with a command in a running container and returns its
// URL. Whether there is such a command shows in the session. Without
// Config.Streams it is Unimplemented.
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

// ExecSession runs a command, chosen by Config.Exec, in a running container with
// the streams of a client, and is what a StreamServer calls. It returns the
// command's exit code; any code is no error. A command that dies with its
// container has code 137.
//
// The command is killed when ctx ends, and the error is then that of ctx: so
// containerd 2 does when the client's connection is gone (containerd 1.6 lets
// the command run on). When the runtime is taken down the session ends and the
// command stays.
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
		x.release() // for what the Resolver may have begun
		return 0, err
	}
	bounded, end := l.bound(ctx)
	defer end()
	// A killed command may wait for the client.
	context.AfterFunc(run.task.ctx, x.release)
	finish := x.serve(bounded, &s)
	err = await(bounded, &run.task)
	if err == nil {
		err = sessionEnded(ctx, l) // which may be why the command has ended
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

// execStreams are the streams of a command in a session.
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

// serve begins to carry the streams. The returned function, given what ends
// their context, waits until all output is delivered.
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

// release lets go of a command that waits for the client.
func (x *execStreams) release() {
	if x.stdin != nil {
		x.stdin.close()
	}
	x.stdout.close()
	x.stderr.close()
}

// outputPipe is the way from a command's output to a client. Unlike the client's own
// Write it can be closed. A Write that has returned will be delivered.
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

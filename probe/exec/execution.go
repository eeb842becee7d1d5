package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/probe"
)

type execution struct {
	id      string
	command []string
	timeout time.Duration
	// ctx is done when the probe is cancelled, or after end.
	ctx context.Context
	end func()

	done chan struct{} // closed after the following fields were set
	took time.Duration
	err  error

	stdout, stderr []byte
}

// errNoAnswer is the error of a call of the runtime that ended its goroutine.
var errNoAnswer = errors.New("the runtime's ExecSync did not return")

// begin requests the execution. The deadline of ctx does not cancel it, because the runtime only
// starts to kill the command at that time. Its own deadline is later than any wait for a
// response. The caller must call end, which waits for the runtime.
func (p *Prober) begin(ctx context.Context, id string, command []string, timeout time.Duration) *execution {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*timeout+3*p.cfg.Grace+aliveTimeout)
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})
	e := &execution{id: id, command: command, timeout: timeout, ctx: own, done: make(chan struct{}), err: errNoAnswer}
	e.end = func() {
		stop()
		cancel()
		<-e.done
	}
	begin := time.Now()
	go func() {
		defer close(e.done)
		e.err = run.Guard("the runtime's ExecSync", func() (err error) {
			e.stdout, e.stderr, err = p.cfg.Runtime.ExecSync(own, id, command, timeout)
			return err
		})
		e.took = time.Since(begin)
	}()
	return e
}

func (e *execution) verdict(ctx context.Context) (probe.Result, error) {
	exit, exited := errors.AsType[interface {
		error
		ExitCode() int
	}](e.err)
	switch {
	case e.err == nil:
		return probe.Result{Verdict: probe.Success, Output: cut("", e.stdout, e.stderr)}, nil
	case exited:
		return probe.Result{Verdict: probe.Failure, Output: e.output(exit.ExitCode())}, nil
	case e.ctx.Err() != nil:
		return probe.Result{}, cancelledError(ctx)
	case errors.Is(e.err, context.DeadlineExceeded) && e.took < e.timeout:
		// The command still had time: a timeout of the runtime itself.
		return probe.Result{}, fmt.Errorf("the runtime timed out after %v: %w", e.took.Round(time.Millisecond), e.err)
	case errors.Is(e.err, context.DeadlineExceeded):
		return probe.Result{Verdict: probe.Failure, Output: e.timedOut()}, nil
	}
	return probe.Result{}, e.err
}

// output returns the output of a command that failed, or its exit code if it wrote nothing.
func (e *execution) output(exitCode int) string {
	if text := cut("", e.stdout, e.stderr); text != "" {
		return text
	}
	return fmt.Sprintf("exit code %d", exitCode)
}

// timedOut returns the text for a command that exceeded its timeout.
func (e *execution) timedOut() string {
	text := fmt.Sprintf("command timed out: %q timed out after %s", strings.Join(e.command, " "), e.timeout)
	if len(e.stdout)+len(e.stderr) == 0 {
		return text
	}
	return cut(text+": ", e.stdout, e.stderr)
}

package fake

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
)

// signalBuffer is the number of signals that wait for a program that handles them.
const signalBuffer = 16

type exit struct {
	code            int32
	reason, message string // from Process.Explain; may be empty
	oom             bool
	abandoned       bool
}

// task is one run of a Program: its goroutine, its context and its signals. A task ends exactly
// once: when the program returns, or when it is abandoned after a kill.
type task struct {
	rt     *Runtime
	owner  taskOwner
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu       sync.Mutex
	signals  chan syscall.Signal // nil until the program calls Process.Signals
	killedBy syscall.Signal      // the signal whose default action ended the program
	oom      bool
	reason   string // see Process.Explain
	message  string
	over     bool
	abandon  *time.Timer
}

// taskOwner is the container or command that a task belongs to.
type taskOwner interface {
	name() string
	// ended is called once, before done is closed, without any lock.
	ended(exit)
}

// prepare makes the zero task ready to run.
func (t *task) prepare(rt *Runtime, owner taskOwner) {
	t.rt, t.owner, t.done = rt, owner, make(chan struct{})
	t.ctx, t.cancel = context.WithCancelCause(programRoot{})
}

// run runs the program to its end, on the caller's goroutine.
func (t *task) run(program Program, p *Process) {
	code := 2 // for a panic or runtime.Goexit
	defer func() {
		if cause := recover(); cause != nil {
			p.printPanic(cause)
		}
		if !t.finish(code, false) {
			<-t.done
			t.rt.returned(t)
		}
	}()
	code = program(t.ctx, p)
}

// printPanic writes a panic to standard error. The program may have replaced Stderr with a writer
// that panics, too.
func (p *Process) printPanic(cause any) {
	defer func() { _ = recover() }()
	fmt.Fprintf(p.Stderr, "panic: %v\n\n%s", cause, debug.Stack())
}

// finish ends the task. It reports whether this call ended it.
func (t *task) finish(code int, abandoned bool) bool {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return false
	}
	t.over = true
	if t.killedBy != 0 {
		code = 128 + int(t.killedBy)
	}
	if t.abandon != nil {
		t.abandon.Stop()
	}
	e := exit{code: int32(code & 0xff), reason: t.reason, message: t.message, oom: t.oom, abandoned: abandoned}
	t.mu.Unlock()

	t.cancel(context.Canceled)
	t.rt.ended(t, e)
	close(t.done)
	return true
}

// signal delivers a signal: to the program's channel if it handles signals, otherwise as the
// signal's default action.
func (t *task) signal(sig syscall.Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over:
	case sig == sigKill:
		t.killedBy = sig
		t.cancel(signalError(sig))
	case t.signals != nil:
		select {
		case t.signals <- sig:
		default:
		}
	case terminates(sig) && t.killedBy == 0:
		t.killedBy = sig
		t.cancel(signalError(sig))
	}
}

// killTimeout is the time for a killed program to return before it is abandoned.
const killTimeout = 10 * time.Second

// kill ends the task in any case: a program that does not return within killTimeout is abandoned.
func (t *task) kill() {
	t.signal(sigKill)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over && t.abandon == nil {
		t.abandon = time.AfterFunc(killTimeout, func() { t.finish(0, true) })
	}
}

func (t *task) handleSignals() <-chan syscall.Signal {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.signals == nil {
		t.signals = make(chan syscall.Signal, signalBuffer)
	}
	return t.signals
}

func (t *task) markOOM() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.oom = true
}

// signalError is the cause of a context that a signal ended.
type signalError syscall.Signal

func (e signalError) Error() string { return "killed by signal " + syscall.Signal(e).String() }

// programRoot is the parent of every program's context. A program outlives the call that starts it
// and is killed with its container or the runtime. No context of a caller may end it or be kept
// alive by it.
type programRoot struct{}

func (programRoot) Deadline() (time.Time, bool) { return time.Time{}, false }
func (programRoot) Done() <-chan struct{}       { return nil }
func (programRoot) Err() error                  { return nil }
func (programRoot) Value(any) any               { return nil }

package podworkers

import (
	"context"
	"errors"
	"time"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

// Causes of a cancelled call, for context.Cause.
var (
	// ErrAgentStopping means that the agent stops and the pod must stay as it is. UpdatePod and
	// Kill also return it once Run is ending.
	ErrAgentStopping = errors.New("the agent is stopping")
	// ErrTerminationRequested means that SyncPod was cancelled because the pod must terminate.
	ErrTerminationRequested = errors.New("termination of the pod was requested")
	// ErrGracePeriodShortened means that a stop is repeated with a shorter grace period.
	ErrGracePeriodShortened = errors.New("the grace period was shortened")

	errForgotten = errors.New("the pod's worker has ended")
)

// Errors for callers.
var (
	// ErrInvalidUpdate is wrapped by each error that refuses an Update.
	ErrInvalidUpdate = errors.New("invalid update")
	// ErrKillTimeout is wrapped by Kill's error when the containers did not stop in time. The
	// kill continues.
	ErrKillTimeout = errors.New("containers did not stop in time")
	// ErrShutdownTimeout is wrapped by Run's error when calls or callbacks were still running
	// after ShutdownTimeout.
	ErrShutdownTimeout = run.ErrShutdownTimeout
	// ErrAlreadyRun is returned by a second Run.
	ErrAlreadyRun = fields.AlreadyRun("podworkers")
)

// ErrNetworkNotReady is for syncers: an error that wraps it, also inside a joined error, is
// retried after 1 s.
var ErrNetworkNotReady = errors.New("the pod network is not ready")

// Backoff is an optional interface of errors. NotBefore returns the earliest useful time of the
// next attempt; zero means no preference. The workers search the whole tree of a syncer's error
// and use the earliest time.
type Backoff interface {
	error
	NotBefore() time.Time
}

// RetryAt returns err with the time of the earliest useful attempt. It returns nil for a nil
// err. The pause until t is at most ResyncInterval; up to half of it is added, as to other
// pauses. A t in the past retries at once, and then, after repeated failures, every second.
func RetryAt(err error, t time.Time) error {
	if err == nil {
		return nil
	}
	return &backoffError{err: err, at: t}
}

type backoffError struct {
	err error
	at  time.Time
}

func (e *backoffError) Error() string        { return e.err.Error() }
func (e *backoffError) Unwrap() error        { return e.err }
func (e *backoffError) NotBefore() time.Time { return e.at }

// PanicError is the error of a call of the syncer that panicked. It is retried like other
// errors. Value is the argument of panic, which Unwrap returns if it is an error. Stack is the
// stack of the goroutine that panicked.
type PanicError = run.PanicError

// errGoexit is the error of a syncer that ended its goroutine instead of returning.
var errGoexit = errors.New("the syncer called runtime.Goexit")

// earliest returns the earliest NotBefore time in the tree of err.
func earliest(err error) (at time.Time, ok bool) {
	if b, is := err.(Backoff); is {
		at = b.NotBefore()
		ok = !at.IsZero()
	}
	for _, child := range children(err) {
		if t, found := earliest(child); found && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	return at, ok
}

func children(err error) []error {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	case interface{ Unwrap() error }:
		if child := e.Unwrap(); child != nil {
			return []error{child}
		}
	}
	return nil
}

func isCancellation(err error) bool { return errors.Is(err, context.Canceled) }

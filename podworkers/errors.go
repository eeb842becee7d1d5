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
	// ErrAgentStopping says that the agent stops. The pod is to be left as it is.
	// UpdatePod and Kill return it too, once Run is ending.
	ErrAgentStopping = errors.New("the agent is stopping")
	// ErrTerminationRequested says that SyncPod is not wanted any more because the
	// pod is to be terminated.
	ErrTerminationRequested = errors.New("termination of the pod was requested")
	// ErrGracePeriodShortened says that a stop is to be repeated with less grace.
	ErrGracePeriodShortened = errors.New("the grace period was shortened")

	errForgotten = errors.New("the pod's worker has ended")
)

// Errors for callers.
var (
	// ErrInvalidUpdate is wrapped by every refusal of an Update.
	ErrInvalidUpdate = errors.New("invalid update")
	// ErrKillTimeout is wrapped by Kill's error when the containers did not stop
	// in time. The kill itself goes on.
	ErrKillTimeout = errors.New("containers did not stop in time")
	// ErrShutdownTimeout is wrapped by Run's error when calls or callbacks
	// ignored that the agent stops.
	ErrShutdownTimeout = errors.New("still running after the shutdown timeout")
	// ErrAlreadyRun is returned by a second Run.
	ErrAlreadyRun = fields.AlreadyRun("podworkers")
)

// ErrNetworkNotReady is for syncers: an error that wraps it, also as part of a
// joined error, is retried after 1 s.
var ErrNetworkNotReady = errors.New("the pod network is not ready")

// Backoff is an ability of errors that know when the next attempt makes sense.
// It is looked for in the whole tree of a syncer's error; the earliest time
// counts. A zero time says nothing.
type Backoff interface {
	error
	NotBefore() time.Time
}

// RetryAt makes err say that an attempt before t makes no sense. It returns nil for
// nil. The next attempt is not at t exactly: the pause until t, ResyncInterval at
// most, is spread as every other one, in [d, 1.5d). A t that has passed means at
// once, and when that has failed too, every second.
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

// PanicError is what a panic inside a syncer becomes. It is retried like any
// other error. Value is what was passed to panic, which Unwrap returns if it is an
// error, and Stack the stack of the goroutine that panicked.
type PanicError = run.PanicError

// errGoexit stands for a syncer that ended its goroutine instead of returning.
var errGoexit = errors.New("the syncer called runtime.Goexit")

// earliest returns the earliest "not before" in the tree of err.
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

package fake

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/internal/run"
)

// life is the time between a start and the next stop of the runtime. Its context ends then, and
// with it all waiting calls.
type life struct {
	ctx context.Context
	end context.CancelCauseFunc
}

func newLife() *life {
	l := &life{}
	l.ctx, l.end = context.WithCancelCause(programRoot{})
	return l
}

// downError is the error of calls to a runtime that is down or closed.
type downError struct{ text string }

func (e *downError) Error() string              { return e.text }
func (e *downError) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.text) }

func closedError() error { return &downError{text: "the runtime is closed"} }
func cutError() error    { return &downError{text: "error reading from server: EOF"} }
func refusedError() error {
	return &downError{text: "connection error: the runtime is down: connection refused"}
}

// unavailable returns the reason that calls fail, or nil. The caller holds rt.mu.
func (rt *Runtime) unavailable() error {
	switch {
	case rt.closed:
		return closedError()
	case rt.down:
		return refusedError()
	}
	return nil
}

func (rt *Runtime) currentLife() *life {
	rt.mu.RLock()
	defer rt.mu.RUnlock()
	return rt.life
}

// bound returns a context that ends with ctx or the runtime's life. The returned function must be
// called.
func (l *life) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	bounded, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	return bounded, func() {
		stop()
		cancel(nil)
	}
}

// callEnded returns the error of a call whose context ended: because of the caller, or because the
// runtime stopped.
func callEnded(ctx context.Context) error {
	var down *downError
	if errors.As(context.Cause(ctx), &down) {
		return down
	}
	return contextError(ctx.Err())
}

func isDown(err error) bool {
	var down *downError
	return errors.As(err, &down)
}

// await waits for the end of a task, or until ctx is done.
func await(ctx context.Context, t *task) error {
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return callEnded(ctx)
	}
}

// await waits for the end of a task, until ctx is done or the runtime stops.
func (rt *Runtime) await(ctx context.Context, t *task) error {
	select {
	case <-t.done:
		return nil
	default:
	}
	l := rt.currentLife()
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return callEnded(ctx)
	case <-l.ctx.Done():
		return callEnded(l.ctx)
	}
}

// enter begins a call: it fails if ctx is done, the runtime is down or closed, or lacks the call,
// or if Config.Intercept returns an error.
func (rt *Runtime) enter(ctx context.Context, call string, request any) error {
	if err := ctx.Err(); err != nil {
		return contextError(err)
	}
	rt.mu.RLock()
	err, l := rt.unavailable(), rt.life
	rt.mu.RUnlock()
	switch {
	case err != nil:
		return err
	case rt.cfg.Intercept == nil:
		return rt.Lacks(call)
	}
	return rt.intercept(ctx, l, call, request)
}

// intercept calls Config.Intercept, with a context that ends with the runtime's life.
func (rt *Runtime) intercept(ctx context.Context, l *life, call string, request any) error {
	bounded, cancel := l.bound(ctx)
	defer cancel()
	err := rt.hook("Config.Intercept", func() error { return rt.cfg.Intercept(rt.withSubject(bounded, request), call, request) })
	if err != nil {
		return interceptError(bounded, err)
	}
	if l.ctx.Err() != nil {
		return callEnded(l.ctx)
	}
	return rt.Lacks(call)
}

// interceptError keeps the error of a hook, except that the end of the call's context gets its
// code.
func interceptError(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && status.Code(err) == codes.Unknown {
		return callEnded(ctx)
	}
	return err
}

// hook calls a function of Config. It converts a panic to the error of the call: a real runtime
// would crash, but this one runs in a test, which should report the place.
func (rt *Runtime) hook(name string, call func() error) error {
	err := run.Guard(name, call)
	if stack := run.StackOf(err); stack != "" {
		rt.cfg.Logger.Error("a hook panicked", "err", err, "stack", stack)
		return status.Error(codes.Internal, err.Error())
	}
	return err
}

package podworkerstest

import (
	"context"
	"time"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/podworkers"
)

// Outcome replaces one call of the syncer. The functions below cover the usual cases.
type Outcome func(ctx context.Context, w podworkers.Work) (terminal bool, err error)

// Succeed returns nil at once.
func Succeed(context.Context, podworkers.Work) (bool, error) { return false, nil }

// Terminal returns at once and reports the pod's natural end.
func Terminal(context.Context, podworkers.Work) (bool, error) { return true, nil }

// UntilCancelled blocks until the context is done and returns its error.
func UntilCancelled(ctx context.Context, _ podworkers.Work) (bool, error) {
	<-ctx.Done()
	return false, ctx.Err()
}

// TakeGrace takes the pod's grace period, like a container that ignores the stop signal. It
// returns early when the context is done.
func TakeGrace(ctx context.Context, w podworkers.Work) (bool, error) {
	return Take(time.Duration(w.GracePeriodSeconds)*time.Second, Succeed)(ctx, w)
}

// Fail returns err at once.
func Fail(err error) Outcome {
	return func(context.Context, podworkers.Work) (bool, error) { return false, err }
}

// Take waits for d and then calls then. It returns early when the context is done.
func Take(d time.Duration, then Outcome) Outcome {
	return func(ctx context.Context, w podworkers.Work) (bool, error) {
		if !run.Sleep(ctx, d) {
			return false, ctx.Err()
		}
		return then(ctx, w)
	}
}

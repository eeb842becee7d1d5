package podworkerstest

import (
	"context"
	"time"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/podworkers"
)

// Outcome decides how one call of the syncer goes: it stands in for the call. Any
// function of this type will do; the ones below are the usual ones.
type Outcome func(ctx context.Context, w podworkers.Work) (terminal bool, err error)

// Succeed ends at once, well.
func Succeed(context.Context, podworkers.Work) (bool, error) { return false, nil }

// Terminal ends at once and says that the pod has reached its natural end.
func Terminal(context.Context, podworkers.Work) (bool, error) { return true, nil }

// UntilCancelled waits for the context to end and returns why.
func UntilCancelled(ctx context.Context, _ podworkers.Work) (bool, error) {
	<-ctx.Done()
	return false, ctx.Err()
}

// TakeGrace takes as long as the pod's grace period, as a container does that
// ignores the request to stop. It ends early when the context does.
func TakeGrace(ctx context.Context, w podworkers.Work) (bool, error) {
	return Take(time.Duration(w.GracePeriodSeconds)*time.Second, Succeed)(ctx, w)
}

// Fail ends at once with err.
func Fail(err error) Outcome {
	return func(context.Context, podworkers.Work) (bool, error) { return false, err }
}

// Take takes d and then goes on as then says. It ends early when the context does.
func Take(d time.Duration, then Outcome) Outcome {
	return func(ctx context.Context, w podworkers.Work) (bool, error) {
		if !run.Sleep(ctx, d) {
			return false, ctx.Err()
		}
		return then(ctx, w)
	}
}

package hooks

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
)

// sleep waits for as many seconds as the handler says, which may be none. An end of
// ctx on the way is an error: the time that was asked for has not passed.
func (r *Runner) sleep(ctx context.Context, action *v1.SleepAction) error {
	if action.Seconds < 0 {
		return fmt.Errorf("%w: sleep.seconds is negative: %d", ErrUnsupported, action.Seconds)
	}
	// A wish for more than a Duration holds is one for ever.
	const longest = int64(1<<63-1) / int64(time.Second)
	if !run.Sleep(ctx, time.Duration(min(action.Seconds, longest))*time.Second) {
		r.cfg.Metrics.OnSleepTerminatedEarly()
		return fmt.Errorf("ended before its %d s were over: %w", action.Seconds, ctx.Err())
	}
	return nil
}

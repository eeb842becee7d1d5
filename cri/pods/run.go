package pods

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// parallel calls f for 0..n-1 at the same time and returns when all have
// returned, with their errors in order.
func parallel(n int, f func(i int) error) []error {
	errs := make([]error, n)
	if n == 1 {
		errs[0] = f(0)
		return errs
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errs
}

// endOf is the error of a context that has ended, with its cause: errors.Is finds
// both.
func endOf(ctx context.Context) error {
	if err, cause := ctx.Err(), context.Cause(ctx); err != cause {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return ctx.Err()
}

// step returns the context of one runtime call that changes something. It ends
// StepGrace after ctx: what the runtime is about to finish is better finished
// than cut off with an unknown outcome, yet a hanging runtime holds nobody up.
// The returned function must be called after the call.
func (m *Manager) step(ctx context.Context) (context.Context, func()) {
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		timer := time.NewTimer(m.cfg.StepGrace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-call.Done():
		}
	})
	return call, func() {
		cancel()
		if !stop() {
			<-done
		}
	}
}

package run

import (
	"context"
	"fmt"
	"time"
)

// EndOf returns the error of a context that is done, joined with its cause: errors.Is finds
// both.
func EndOf(ctx context.Context) error {
	if err, cause := ctx.Err(), context.Cause(ctx); err != cause {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return ctx.Err()
}

// WithGrace returns a context that ends grace after ctx, for a call whose interruption would
// leave an unknown outcome. The caller must call done after the call.
func WithGrace(ctx context.Context, grace time.Duration) (call context.Context, done func()) {
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		Sleep(call, grace)
		cancel()
	})
	return call, func() {
		cancel()
		if !stop() {
			<-ended
		}
	}
}

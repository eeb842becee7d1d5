package run

import (
	"context"
	"fmt"
	"time"
)

// EndOf is the error of a context that has ended, with its cause: errors.Is finds
// both.
func EndOf(ctx context.Context) error {
	if err, cause := ctx.Err(), context.Cause(ctx); err != cause {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return ctx.Err()
}

// WithGrace returns a context that ends grace after ctx does, for a call that is
// better finished than cut off with an unknown outcome. The returned function must
// be called after the call.
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

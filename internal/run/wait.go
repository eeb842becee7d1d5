package run

import (
	"context"
	"time"
)

// Sleep waits for d and reports whether that passed before ctx was done.
func Sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Wait waits for done to be closed, at most for limit, and reports whether it was.
func Wait(done <-chan struct{}, limit time.Duration) bool {
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

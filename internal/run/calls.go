package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrLeftBehind is wrapped by the error of a call that still ran when its context was done. The
// call may still take effect. The next call on the same path waits for it.
var ErrLeftBehind = errors.New("still running")

// Calls runs calls that may never return, such as system calls that wait for a server. The zero
// value is ready for use. It is safe for concurrent use.
type Calls struct {
	group Group
	mu    sync.Mutex
	paths map[string]chan struct{} // closed when the call on the path has returned
}

// Do runs f until it returns or ctx is done. Calls on one path wait for each other. If ctx is
// done during that wait, f is not called.
func (c *Calls) Do(ctx context.Context, what, path string, f func() error) error {
	done, err := c.enter(ctx, what, path)
	if err != nil {
		return err
	}
	return c.DoNow(ctx, what, path, func() error {
		defer c.leave(path, done)
		return f()
	})
}

// DoNow is Do without the wait for other calls.
func (c *Calls) DoNow(ctx context.Context, what, path string, f func() error) error {
	begun := time.Now()
	result := make(chan error, 1)
	c.group.Go(what+" "+path+" since "+begun.UTC().Format(time.RFC3339), func() { result <- f() })
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select { // a result takes precedence over the end of ctx
	case err := <-result:
		return err
	default:
		return fmt.Errorf("%s %s: %w after %s: %w", what, path, ErrLeftBehind, time.Since(begun).Round(time.Millisecond), EndOf(ctx))
	}
}

func (c *Calls) enter(ctx context.Context, what, path string) (done chan struct{}, err error) {
	for {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s %s: %w", what, path, EndOf(ctx))
		}
		c.mu.Lock()
		other := c.paths[path]
		if other == nil {
			if c.paths == nil {
				c.paths = map[string]chan struct{}{}
			}
			done = make(chan struct{})
			c.paths[path] = done
			c.mu.Unlock()
			return done, nil
		}
		c.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s %s: waiting for an earlier call: %w", what, path, EndOf(ctx))
		}
	}
}

func (c *Calls) leave(path string, done chan struct{}) {
	c.mu.Lock()
	delete(c.paths, path)
	c.mu.Unlock()
	close(done)
}

// Wait blocks until no call runs, at most for limit. It returns the names of the running calls.
func (c *Calls) Wait(limit time.Duration) (running []string) { return c.group.Wait(limit) }

// Running returns the names of the running calls with their start times.
func (c *Calls) Running() []string { return c.group.Running() }

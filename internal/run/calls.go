package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrLeftBehind is wrapped by the error of a call that had not returned when its context
// ended. It may have its effect yet. The next call on the same path waits for it.
var ErrLeftBehind = errors.New("left behind")

// Calls runs what may never return, such as calls of the kernel that wait for a server.
// The zero value has none.
type Calls struct {
	group Group
	mu    sync.Mutex
	paths map[string]chan struct{} // closed when the call on the path has returned
}

// Do runs f until it returns or ctx ends. Calls on one path wait for each other; f is
// not called if ctx ends before.
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
	select { // that it has returned says more than that the context has ended
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

// Running names the calls that have not returned yet, with the time when they began.
func (c *Calls) Running() []string { return c.group.Running() }

package mounts

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// calls runs what may never return. The zero value has none.
type calls struct {
	group run.Group
	mu    sync.Mutex
	paths map[string]chan struct{} // closed when the call on the path has returned
}

// do runs f until it returns or ctx ends. Calls on one path wait for each other; f is
// not called if ctx ends before.
func (c *calls) do(ctx context.Context, what, path string, f func() error) error {
	done, err := c.enter(ctx, what, path)
	if err != nil {
		return err
	}
	return c.run(ctx, what, path, func() error {
		defer c.leave(path, done)
		return f()
	})
}

// run is do without the wait for other calls.
func (c *calls) run(ctx context.Context, what, path string, f func() error) error {
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
		return fmt.Errorf("%s %s: %w after %s: %w", what, path, ErrLeftBehind, time.Since(begun).Round(time.Millisecond), run.EndOf(ctx))
	}
}

func (c *calls) enter(ctx context.Context, what, path string) (done chan struct{}, err error) {
	for {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s %s: %w", what, path, run.EndOf(ctx))
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
			return nil, fmt.Errorf("%s %s: waiting for an earlier call: %w", what, path, run.EndOf(ctx))
		}
	}
}

func (c *calls) leave(path string, done chan struct{}) {
	c.mu.Lock()
	delete(c.paths, path)
	c.mu.Unlock()
	close(done)
}

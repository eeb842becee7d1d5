package run

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// Group is a set of named goroutines that can be joined with a deadline. The zero value is ready
// for use. It is safe for concurrent use.
type Group struct {
	mu    sync.Mutex
	names map[string]int
	total int
	idle  chan struct{} // non-nil while a wait is in progress; closed when total is zero
}

// Go runs f in a goroutine. It may be called during a Wait.
func (g *Group) Go(name string, f func()) {
	end := g.Begin(name)
	go func() {
		defer end()
		f()
	}()
}

// Begin counts a goroutine that the caller starts, until end is called.
func (g *Group) Begin(name string) (end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.names == nil {
		g.names = map[string]int{}
	}
	g.names[name]++
	g.total++
	return func() { g.ended(name) }
}

func (g *Group) ended(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.names[name]--; g.names[name] == 0 {
		delete(g.names, name)
	}
	if g.total--; g.total == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Idle returns a channel that is closed when no goroutine runs.
func (g *Group) Idle() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.total == 0 {
		idle := make(chan struct{})
		close(idle)
		return idle
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	return g.idle
}

// Wait blocks until no goroutine runs, at most for limit. It returns the names of the running
// goroutines, sorted, without duplicates.
func (g *Group) Wait(limit time.Duration) (running []string) {
	if Wait(g.Idle(), limit) {
		return nil
	}
	return g.Running()
}

// Running returns the names of the running goroutines, sorted, without duplicates.
func (g *Group) Running() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.names))
}

// All runs parts until ctx is done or one part returns. It then cancels the rest, waits for
// them, and returns their joined errors.
func All(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() {
			defer stop()
			errs[i] = part(ctx)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

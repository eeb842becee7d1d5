package objects

import (
	"context"
	"sync"

	"github.com/podwright/podwright/internal/run"
)

// watches are goroutines that end with Run at the latest. Watches started before Run begin with
// Run.
type watches struct {
	group run.Group

	mu      sync.Mutex
	ctx     context.Context // nil before Run
	pending []func()
}

// start runs f until the returned function is called or Run ends.
func (w *watches) start(what string, f func(context.Context) error) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stopped, cancel := false, context.CancelFunc(func() {})
	begin := func() {
		if stopped {
			return
		}
		var ctx context.Context
		ctx, cancel = context.WithCancel(w.ctx)
		w.group.Go(what, func() { _ = f(ctx) }) // a Feed logs its failures, and ends with its context only
	}
	if w.ctx == nil {
		w.pending = append(w.pending, begin)
	} else {
		begin()
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		stopped = true
		cancel()
	}
}

func (w *watches) begin(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx = ctx
	for _, begin := range w.pending {
		begin()
	}
	w.pending = nil
}

func (w *watches) join() { <-w.group.Idle() }

package node

import (
	"context"
	"sync"
	"time"

	"github.com/podwright/podwright/internal/run"
)

const (
	// lookTimeout bounds the wait for inputs that cannot be read, at a start and after a suspension.
	lookTimeout = 10 * time.Second
	lookPause   = 100 * time.Millisecond
	// awakePeriod is the period of the checks for a suspension, maxGap the longest expected time
	// between two checks.
	awakePeriod = time.Second
	maxGap      = 5 * time.Second
)

// lookIfStale looks at the inputs before the first status, and after a suspension. It reports
// whether it did.
func (r *rounds) lookIfStale(ctx context.Context) bool {
	switch frozen := r.awake.frozen(); {
	case frozen:
		r.look(ctx, time.Now().Add(lookTimeout))
	case !r.looked && r.complete: // for inputs that need the API server
		r.look(ctx, time.Now().Add(lookTimeout))
	case !r.looked:
		r.look(ctx, r.begun.Add(lookTimeout))
	default:
		return false
	}
	r.looked = r.last != nil // a new node has inputs that need the node
	return true
}

// look looks at the inputs until each could be read, or the time has come. It returns true.
func (r *rounds) look(ctx context.Context, until time.Time) bool {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		err := r.lookOnce(ctx)
		if r.complete = err == nil; r.complete {
			return true
		}
		if !run.Sleep(ctx, lookPause) {
			r.cfg.Logger.Debug("reporting the node although an input of its status cannot be read", "node", r.cfg.Name, "err", err)
			return true
		}
	}
}

func (r *rounds) lookOnce(ctx context.Context) error {
	_, err := bounded(ctx, r.Node, lookAtInputs, func(ctx context.Context) (none struct{}, _ error) {
		return none, r.cfg.Look(ctx)
	})
	return err
}

func (r *rounds) lookWithin(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return r.lookOnce(ctx)
}

// awake detects that the process did not run, because it was stopped or the machine was suspended.
// The zero value is ready to use. It is safe for concurrent use.
type awake struct {
	mu   sync.Mutex
	last time.Time // of the last check
	// slept is true after a gap that frozen has not returned.
	slept bool
}

// run checks periodically until ctx is done.
func (a *awake) run(ctx context.Context) error {
	for {
		a.check()
		if !run.Sleep(ctx, awakePeriod) {
			return nil
		}
	}
}

func (a *awake) check() {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	// The monotonic clock stands still while the machine is suspended, the wall clock does not.
	if !a.last.IsZero() && max(now.Sub(a.last), now.Round(0).Sub(a.last.Round(0))) > maxGap {
		a.slept = true
	}
	a.last = now
}

// frozen reports whether the process was suspended since the last call that returned true.
func (a *awake) frozen() bool {
	a.check()
	a.mu.Lock()
	defer a.mu.Unlock()
	slept := a.slept
	a.slept = false
	return slept
}

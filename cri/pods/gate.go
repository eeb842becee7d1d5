package pods

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// placeLimit is the longest time that a start uses a slot. A slower start probably hangs, and
	// a few of them must not block all other pods.
	placeLimit = 10 * time.Second
	// stopPlaceLimit is the same for a stop. A slower stop waits for a process to end, possibly
	// for hours, and costs the runtime no time.
	stopPlaceLimit = 250 * time.Millisecond
)

// gate bounds the starts, or stops, that run at the same time. Pods in progress go before new
// ones, so that the first pods of a burst are up early instead of all of them late.
type gate struct {
	limit time.Duration

	mu   sync.Mutex
	free int
	// begun waits to start containers or to continue a stop; fresh waits to start sandboxes or to
	// run preStop handlers. A waiter is a channel that is closed when it gets a slot.
	begun, fresh []chan struct{}
}

// newGate returns a gate with n slots, each used for at most limit.
func newGate(n int, limit time.Duration) *gate { return &gate{free: n, limit: limit} }

// enter blocks until it gets a slot or ctx is done. The caller calls leave once. After limit the
// slot is free again without leave.
func (g *gate) enter(ctx context.Context, begun bool) (leave func(), err error) {
	if err := g.acquire(ctx, begun); err != nil {
		return nil, err
	}
	limit := time.AfterFunc(g.limit, g.release)
	return func() {
		if limit.Stop() {
			g.release()
		}
	}, nil
}

// acquire blocks until it gets a slot or ctx is done.
func (g *gate) acquire(ctx context.Context, begun bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	queue := g.queue(begun)
	*queue = append(*queue, turn)
	g.mu.Unlock()

	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	i := slices.Index(*queue, turn)
	if i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
	}
	g.mu.Unlock()
	if i < 0 { // the slot came at the same moment
		g.release()
	}
	return ctx.Err()
}

// release passes the slot to the next waiter, if there is one.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, queue := range []*[]chan struct{}{&g.begun, &g.fresh} {
		if len(*queue) > 0 {
			close((*queue)[0])
			*queue = slices.Delete(*queue, 0, 1)
			return
		}
	}
	g.free++
}

func (g *gate) queue(begun bool) *[]chan struct{} {
	if begun {
		return &g.begun
	}
	return &g.fresh
}

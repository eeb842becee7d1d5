package pods

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// placeLimit is how long a start may keep its place. Whoever takes longer hangs,
	// more likely than not, and a few of them must not keep all other pods waiting.
	placeLimit = 10 * time.Second
	// stopPlaceLimit is the same for a stop. What takes longer waits for a process to
	// end, which costs the runtime nothing, and may do so for hours.
	stopPlaceLimit = 250 * time.Millisecond
)

// gate bounds how many starts, or stops, go on at a time. Pods that were begun go before
// new ones: work that is half done is finished first, so that the first pods of
// a burst are up early instead of all of them late.
type gate struct {
	limit time.Duration

	mu   sync.Mutex
	free int
	// begun waits to start containers, or to stop what was begun to be stopped, fresh to
	// start sandboxes, or to run preStop handlers. Each waiter is a channel that is
	// closed when a place was handed to it.
	begun, fresh []chan struct{}
}

// newGate has n places, which are kept for limit at most.
func newGate(n int, limit time.Duration) *gate { return &gate{free: n, limit: limit} }

// enter waits for a place, or for the end of ctx. leave must be called once; a
// place that was kept for the limit is lost before.
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

// acquire waits for a place, or for the end of ctx.
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
	if i < 0 { // the place came at the same moment
		g.release()
	}
	return ctx.Err()
}

// release gives a place back: to the next in turn, if anybody waits.
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

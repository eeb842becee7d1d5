package podsyncer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// turns lets one at a time work on a pod: its worker, or housekeeping on what a
// pod has left. A pod that comes back has the UID that it had before, if it is a
// static one, so the two could otherwise meet: housekeeping would take the new
// pod's folder for the old one's.
type turns struct {
	mu    sync.Mutex
	taken map[types.UID]chan struct{} // closed when the turn ends
}

func newTurns() *turns { return &turns{taken: map[types.UID]chan struct{}{}} }

// take waits for the pod's turn, which ends with a call of end.
func (t *turns) take(ctx context.Context, uid types.UID) (end func(), err error) {
	for {
		end, other := t.try(uid)
		if other == nil {
			return end, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("pod %s: wait for the removal of what it has left: %w", uid, ctx.Err())
		}
	}
}

// try takes the pod's turn if nobody has it; other is closed when that ends.
func (t *turns) try(uid types.UID) (end func(), other <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if taken := t.taken[uid]; taken != nil {
		return nil, taken
	}
	mine := make(chan struct{})
	t.taken[uid] = mine
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.taken, uid)
		close(mine)
	}, nil
}

// busy tells whether somebody works on the pod now.
func (t *turns) busy(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken[uid] != nil
}

// uids are the pods on which somebody works.
func (t *turns) uids() []types.UID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.taken))
}

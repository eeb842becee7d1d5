package podsyncer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// turns gives exclusive access to a pod, to its worker or to housekeeping. A static pod that
// returns has its former UID; without turns, housekeeping would take the new pod's folder for the
// old one's.
type turns struct {
	mu    sync.Mutex
	taken map[types.UID]chan struct{} // closed when the operation ends
}

func newTurns() *turns { return &turns{taken: map[types.UID]chan struct{}{}} }

// take waits for exclusive access to the pod. It lasts until end is called.
func (t *turns) take(ctx context.Context, uid types.UID) (end func(), err error) {
	for {
		end, other := t.try(uid)
		if other == nil {
			return end, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("pod %s: wait for the removal of the previous pod with this UID: %w", uid, ctx.Err())
		}
	}
}

// try takes exclusive access if it is free. Otherwise it returns other, which is closed when the
// current operation ends.
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

func (t *turns) busy(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken[uid] != nil
}

func (t *turns) uids() []types.UID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.taken))
}

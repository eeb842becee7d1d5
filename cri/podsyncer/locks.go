package podsyncer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// podLocks gives exclusive access to a pod, to its worker or to housekeeping. A static pod that
// returns has its former UID; without locks, housekeeping would take the new pod's folder for the
// old one's.
type podLocks struct {
	mu    sync.Mutex
	taken map[types.UID]chan struct{} // closed when the operation ends
}

func newPodLocks() *podLocks { return &podLocks{taken: map[types.UID]chan struct{}{}} }

// take waits for exclusive access to the pod. It lasts until end is called.
func (t *podLocks) take(ctx context.Context, uid types.UID) (end func(), err error) {
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
func (t *podLocks) try(uid types.UID) (end func(), other <-chan struct{}) {
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

func (t *podLocks) busy(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken[uid] != nil
}

func (t *podLocks) uids() []types.UID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.taken))
}

package agent

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
)

// fresh is how old an observation may be that a sync begins with, as old as the
// observer's own period makes it where the runtime has no events.
const fresh = time.Second

// observer asks the PLEG on behalf of the pod workers. It knows when the agent
// itself last changed something of a pod, which saves most of the questions:
//
//   - An observation made after the last change, and not long ago, is as good as
//     one made now.
//   - While a worker is changing its pod the runtime sends an event per step. They
//     are held back: whoever changes a pod looks when he has finished.
type observer struct {
	*pleg.PLEG

	mu    sync.Mutex
	acted map[types.UID]time.Time
	busy  map[types.UID]bool // true: a hint was held back
}

// newObserver returns an observer that waits for its PLEG to be set.
func newObserver() *observer {
	return &observer{acted: map[types.UID]time.Time{}, busy: map[types.UID]bool{}}
}

// sinceActed returns a status observed after the agent's last change of the pod
// and not longer than fresh ago. callEnded is the end of the previous sync.
func (o *observer) sinceActed(ctx context.Context, uid types.UID, callEnded time.Time) (*pleg.PodStatus, error) {
	after := time.Now().Add(-fresh)
	if callEnded.Before(after) {
		after = callEnded
	}
	o.mu.Lock()
	if acted := o.acted[uid]; acted.After(after) {
		after = acted
	}
	o.mu.Unlock()
	return o.Observe(ctx, uid, after)
}

// act runs do, which tells whether it has changed the pod, holds back hints
// meanwhile, and notes when it ended. Who has changed a pod looks at it afterwards,
// or has somebody look. A panic counts as a change.
func (o *observer) act(uid types.UID, do func() (changed bool)) {
	o.mu.Lock()
	o.busy[uid] = false
	o.mu.Unlock()
	changed := true
	defer func() {
		o.mu.Lock()
		if changed {
			o.acted[uid] = time.Now()
		}
		missed := o.busy[uid] && !changed
		delete(o.busy, uid)
		o.mu.Unlock()
		if missed {
			o.RequestRelist(uid)
		}
	}()
	changed = do()
}

// hold tells whether a hint about the pod is held back.
func (o *observer) hold(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, busy := o.busy[uid]; !busy {
		return false
	}
	o.busy[uid] = true
	return true
}

// keep drops what is known of pods that are not wanted, once they were looked at
// after their last change: whoever has the UID next must not see what was before.
func (o *observer) keep(wanted func(types.UID) bool) {
	o.mu.Lock()
	acted := maps.Clone(o.acted)
	o.mu.Unlock()
	for uid := range acted {
		if wanted(uid) {
			continue
		}
		if s, err := o.Get(uid); err == nil {
			o.drop(uid, s.ObservedAt)
		}
	}
}

// drop drops what is known of a pod that was observed after its last change.
func (o *observer) drop(uid types.UID, observed time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.acted[uid].After(observed) {
		delete(o.acted, uid)
	}
}

// hinted is the runtime as the PLEG sees it, with hints held back.
type hinted struct {
	observable
	hold func(types.UID) bool
}

// observable is a pleg.Runtime with events.
type observable interface {
	pleg.Runtime
	pleg.EventStream
}

// PodEvents passes on the hints that are not held back.
func (h hinted) PodEvents(ctx context.Context, dirty func(types.UID)) error {
	return h.observable.PodEvents(ctx, func(uid types.UID) {
		if !h.hold(uid) {
			dirty(uid)
		}
	})
}

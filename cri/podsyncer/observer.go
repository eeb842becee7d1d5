package podsyncer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
)

// fresh is how old an observation may be that a sync begins with, as old as the
// period of the PLEG makes it where the runtime has no events.
const fresh = time.Second

// observer asks the PLEG on behalf of the pod workers. It knows when the syncer
// itself last changed something of a pod, which saves most of the questions:
//
//   - An observation made after the last change, and not long ago, is as good as
//     one made now.
//   - While a worker is changing its pod the runtime sends an event per step. They
//     are held back: whoever changes a pod looks when he has finished.
type observer struct {
	*pleg.PLEG

	mu sync.Mutex
	// changed is when a pod was last changed, changing which are being changed;
	// true: a hint was held back.
	changed  map[types.UID]time.Time
	changing map[types.UID]bool
}

// newObserver returns an observer that waits for its PLEG to be set.
func newObserver() *observer {
	return &observer{changed: map[types.UID]time.Time{}, changing: map[types.UID]bool{}}
}

// sinceChanged returns a status observed after the last change of the pod and not
// longer than fresh ago. callEnded is the end of the previous call of its worker.
func (o *observer) sinceChanged(ctx context.Context, uid types.UID, callEnded time.Time) (*observed.Pod, error) {
	after := time.Now().Add(-fresh)
	if callEnded.Before(after) {
		after = callEnded
	}
	o.mu.Lock()
	if changed := o.changed[uid]; changed.After(after) {
		after = changed
	}
	o.mu.Unlock()
	return o.Observe(ctx, uid, after)
}

// change runs do, which tells whether it has changed the pod, holds back hints
// while it runs, and notes when it ended. Whoever has changed a pod looks at it
// afterwards, or has somebody look. A panic counts as a change.
func (o *observer) change(uid types.UID, do func() (changed bool)) {
	o.mu.Lock()
	o.changing[uid] = false
	o.mu.Unlock()
	changed := true
	defer func() {
		o.mu.Lock()
		if changed {
			o.changed[uid] = time.Now()
		}
		missed := o.changing[uid] && !changed
		delete(o.changing, uid)
		o.mu.Unlock()
		if missed {
			o.Request(uid, pleg.Acted)
		}
	}()
	changed = do()
}

// hold tells whether a hint about the pod is held back.
func (o *observer) hold(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, changing := o.changing[uid]; !changing {
		return false
	}
	o.changing[uid] = true
	return true
}

// whileChanging is what a pod looks like that a worker is changing, nil if nothing
// is known that is newer than since: without events of the runtime that is what its
// lists show, with them a hint is held back for each change.
func (o *observer) whileChanging(ctx context.Context, uid types.UID, since time.Time) *observed.Pod {
	o.mu.Lock()
	hinted := o.changing[uid]
	if hinted {
		o.changing[uid] = false
	}
	o.mu.Unlock()
	var status *observed.Pod
	var err error
	if hinted {
		status, err = o.Observe(ctx, uid, time.Now())
	} else {
		status, err = o.Get(uid)
	}
	if err != nil || !status.ObservedAt.After(since) {
		return nil
	}
	return status
}

// prune drops what is known of pods that are not wanted, once they were looked at
// after their last change: whoever has the UID next must not see what was before.
func (o *observer) prune(wanted func(types.UID) bool) {
	for _, uid := range o.uids() {
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
	if !o.changed[uid].After(observed) {
		delete(o.changed, uid)
	}
}

// uids are the pods that are being changed, and those of which it is known when they
// were.
func (o *observer) uids() []types.UID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Keys(o.changed)), maps.Keys(o.changing))
}

// withheld is a runtime as the PLEG sees it, with hints held back.
type withheld struct {
	eventedRuntime
	hold func(types.UID) bool
}

// eventedRuntime is a pleg.Runtime with events.
type eventedRuntime interface {
	pleg.Runtime
	pleg.EventStream
}

// PodEvents passes on the hints that are not held back.
func (w withheld) PodEvents(ctx context.Context, dirty func(types.UID)) error {
	return w.eventedRuntime.PodEvents(ctx, func(uid types.UID) {
		if !w.hold(uid) {
			dirty(uid)
		}
	})
}

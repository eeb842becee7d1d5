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

// maxObservationAge is the greatest age of an observation at the start of a sync. It equals the PLEG's period
// for runtimes without events.
const maxObservationAge = time.Second

// observer reads the PLEG for the pod workers. It records when the syncer last changed a pod, which
// avoids most observations:
//
//   - A recent observation made after the last change is as good as a new one.
//   - While a worker changes its pod, the runtime sends an event per step. These hints are held
//     back, because the worker observes the pod when it has finished.
type observer struct {
	*pleg.PLEG

	mu sync.Mutex
	// changed has the time of each pod's last change. changing has the pods with a change in
	// progress; true means that a hint was delayed.
	changed  map[types.UID]time.Time
	changing map[types.UID]bool
}

// newObserver returns an observer without a PLEG; the caller sets it.
func newObserver() *observer {
	return &observer{changed: map[types.UID]time.Time{}, changing: map[types.UID]bool{}}
}

// sinceChanged returns a status observed after the pod's last change and at most maxObservationAge ago.
// callEnded is the end of the worker's previous call.
func (o *observer) sinceChanged(ctx context.Context, uid types.UID, callEnded time.Time) (*observed.Pod, error) {
	after := time.Now().Add(-maxObservationAge)
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

// change calls do, which reports whether it changed the pod. It delays hints meanwhile and
// records the time of the change. The caller observes the pod afterwards, or requests an
// observation. A panic counts as a change.
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

// delayHint reports whether a hint about the pod must wait, and records the hint if so.
func (o *observer) delayHint(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, changing := o.changing[uid]; !changing {
		return false
	}
	o.changing[uid] = true
	return true
}

// whileChanging observes a pod during a change. It returns nil without an observation newer than
// since. Without events of the runtime it uses the lists of the PLEG; with events it observes once
// for each delayed hint.
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

// prune drops the state of unwanted pods that were observed after their last change. Until then the
// state stays, so that the next pod with the UID does not get an older observation.
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

// drop drops the state of a pod that was observed after its last change.
func (o *observer) drop(uid types.UID, observed time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.changed[uid].After(observed) {
		delete(o.changed, uid)
	}
}

func (o *observer) uids() []types.UID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Keys(o.changed)), maps.Keys(o.changing))
}

// delayedHints is the PLEG's view of the runtime, with hints delayed.
type delayedHints struct {
	eventedRuntime
	delayHint func(types.UID) bool
}

type eventedRuntime interface {
	pleg.Runtime
	pleg.EventStream
}

// PodEvents passes on hints unless delayHint delays them.
func (w delayedHints) PodEvents(ctx context.Context, dirty func(types.UID)) error {
	return w.eventedRuntime.PodEvents(ctx, func(uid types.UID) {
		if !w.delayHint(uid) {
			dirty(uid)
		}
	})
}

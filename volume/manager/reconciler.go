package manager

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

// reconciler compares the desired with the actual state, and begins the operations that
// follow. It is plain data; the caller holds the lock of the Manager.
type reconciler struct {
	pods map[types.UID]*podState
	desiredState
	actualState
	workQueue
	slots refreshSlots
	limit time.Duration // of each operation
}

func newReconciler(plugins []volume.Plugin, limit time.Duration) *reconciler {
	rc := &reconciler{
		pods: map[types.UID]*podState{}, limit: limit,
		desiredState: desiredState{objects: map[volume.Object]set[*volumeState]{}, claimed: map[claimKey]set[*volumeState]{}},
		actualState: actualState{
			shared: map[volume.ID]*sharedState{}, lists: map[string]*listState{},
			unknown: map[string]int{}, unread: set[types.UID]{},
		},
		workQueue: newWorkQueue(),
	}
	for _, p := range plugins {
		if _, ok := p.(volume.Stager); ok {
			l := &listState{plugin: p}
			rc.lists[p.Name()] = l
			rc.touch(l)
		}
	}
	return rc
}

// next takes what has changed, or has become due, and returns the operations that
// begin now. They count as running.
func (rc *reconciler) next(now time.Time) (begun []*operation) {
	for a := rc.pop(now); a != nil; a = rc.pop(now) {
		if op := rc.scan(a, now); op != nil {
			begun = append(begun, op)
		}
	}
	return begun
}

// scan takes the next step of an item.
func (rc *reconciler) scan(a item, now time.Time) *operation {
	rc.due.Remove(a)
	if op := a.base().op; op != nil && !op.stuck && !now.Before(op.stuckAt) {
		rc.markStuck(op)
	}
	s := a.next(rc, now)
	switch {
	case s.drop:
		rc.drop(a)
		return nil
	case s.do != doNothing:
		return rc.begin(a, s.do, now)
	case !s.at.IsZero():
		rc.push(a, s.at)
	}
	rc.changes(a)
	return nil
}

// touchAllShared has all shared volumes looked at: it is known of all that are on the disk,
// or is not any more, who uses them.
func (rc *reconciler) touchAllShared() {
	for _, s := range rc.shared {
		rc.touch(s)
	}
}

// touchPeers has the volumes of other pods looked at that may wait for this one.
func (rc *reconciler) touchPeers(v *volumeState) {
	for other := range rc.claimed[v.claim()] {
		if other != v {
			rc.touch(other)
		}
	}
}

// touchNear has an item looked at, and those that may wait for it.
func (rc *reconciler) touchNear(a item) {
	rc.touch(a)
	switch a := a.(type) {
	case *podState:
		rc.touchPod(a)
	case *volumeState:
		rc.touchShared(a.shared)
		rc.touchPeers(a)
	case *sharedState:
		rc.touchShared(a)
	}
}

// touchClaimed has all volumes looked at that may be of claims, once nothing is being read:
// they may have waited for that.
func (rc *reconciler) touchClaimed() {
	if rc.reading() {
		return
	}
	for _, volumes := range rc.claimed {
		for v := range volumes {
			rc.touch(v)
		}
	}
}

package manager

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

// reconciler compares the desired with the actual state and starts the necessary operations. It
// is plain data. The caller holds the Manager's mu.
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

// next examines all changed and due items and returns the operations that start now. It marks
// them as running.
func (rc *reconciler) next(now time.Time) (begun []*operation) {
	for a := rc.pop(now); a != nil; a = rc.pop(now) {
		if op := rc.scan(a, now); op != nil {
			begun = append(begun, op)
		}
	}
	return begun
}

func (rc *reconciler) scan(a item, now time.Time) *operation {
	rc.scheduled.Remove(a)
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

// touchAllShared schedules all shared volumes, because their users on the disk are now known or
// unknown.
func (rc *reconciler) touchAllShared() {
	for _, s := range rc.shared {
		rc.touch(s)
	}
}

// touchPeers schedules volumes of other pods that may wait for this one.
func (rc *reconciler) touchPeers(v *volumeState) {
	for other := range rc.claimed[v.claim()] {
		if other != v {
			rc.touch(other)
		}
	}
}

// touchDependents schedules an item and the items that may wait for it.
func (rc *reconciler) touchDependents(a item) {
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

// touchClaimed schedules all volumes with claims if no read of the disk is in progress. They
// may have waited for it.
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

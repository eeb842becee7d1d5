package manager

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

// world is what is desired and what is there: plain data. next.go says what is to be
// done about the difference.
type reconciler struct {
	pods   map[types.UID]*podState
	shared map[volume.ID]*sharedState
	// lists are the listings of what is staged, by the name of the Stager.
	lists map[string]*listState

	// objects are the volumes with the content of an object.
	objects map[volume.Object]set[*volumeState]
	// claimed are volumes of the same name, by plugin: those of one claim are.
	claimed map[claimKey]set[*volumeState]
	// unknown counts, by plugin, the volumes found on disk of which nobody knows yet
	// whether they are shared; unread are pods of which the disk could not be read.
	// Nothing is unstaged while there are any.
	unknown map[string]int
	unread  set[types.UID]
	// complete tells that all sources of pods were read.
	complete bool
	// refreshing counts the mounts of what is mounted already; queue are those that
	// wait for others to end.
	refreshing int
	queue      []*volumeState

	limit time.Duration // of each operation

	dirty   []item          // what has to be looked at
	changed set[types.UID]  // the pods that somebody may wait for
	due     *run.Heap[item] // what has to be looked at later
}

func newReconciler(plugins []volume.Plugin, limit time.Duration) *reconciler {
	rc := &reconciler{
		limit: limit,
		pods:  map[types.UID]*podState{}, shared: map[volume.ID]*sharedState{}, lists: map[string]*listState{},
		objects: map[volume.Object]set[*volumeState]{}, claimed: map[claimKey]set[*volumeState]{},
		unknown: map[string]int{}, unread: set[types.UID]{}, changed: set[types.UID]{},
		due: run.NewHeap(
			func(a, b item) bool { return a.base().due.Before(b.base().due) },
			func(a item) *run.Place { return &a.base().place },
		),
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
	for first, ok := rc.due.First(); ok && !first.base().due.After(now); first, ok = rc.due.First() {
		rc.due.Remove(first)
		rc.touch(first)
	}
	for len(rc.dirty) > 0 {
		a := rc.dirty[0]
		rc.dirty = rc.dirty[1:]
		a.base().dirty = false
		if op := rc.scan(a, now); op != nil {
			begun = append(begun, op)
		}
	}
	rc.dirty = nil
	return begun
}

// scan does what is to be done for one item.
func (rc *reconciler) scan(a item, now time.Time) *operation {
	u := a.base()
	rc.due.Remove(a)
	if op := u.op; op != nil && !op.stuck && !now.Before(op.stuckAt) {
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
		u.due = s.at
		rc.due.Put(a)
	}
	rc.changes(a)
	return nil
}

// nextDue is when next has something to do without a change.
func (rc *reconciler) nextDue() (time.Time, bool) {
	first, ok := rc.due.First()
	if !ok {
		return time.Time{}, false
	}
	return first.base().due, true
}

// touch has an item looked at.
func (rc *reconciler) touch(a item) {
	if u := a.base(); !u.dirty {
		u.dirty = true
		rc.dirty = append(rc.dirty, a)
	}
}

// touchPod has all volumes of a pod looked at, and the pod.
func (rc *reconciler) touchPod(p *podState) {
	rc.touch(p)
	for _, v := range p.volumes {
		rc.touch(v)
	}
}

// touchShared has a shared volume looked at, and all that wait for it.
func (rc *reconciler) touchShared(s *sharedState) {
	if s == nil {
		return
	}
	rc.touch(s)
	for v := range s.users {
		rc.touch(v)
	}
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

// changes notes which pods somebody may wait for have changed.
func (rc *reconciler) changes(a item) {
	switch a := a.(type) {
	case *podState:
		rc.changed.add(a.uid)
	case *volumeState:
		rc.changed.add(a.pod.uid)
	case *sharedState:
		for v := range a.users {
			rc.changed.add(v.pod.uid)
		}
	}
}

package manager

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

// world is what is desired and what is there: plain data. next.go says what is to be
// done about the difference.
type world struct {
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

	dirty   []actor          // what has to be looked at
	changed set[types.UID]   // the pods that somebody may wait for
	due     *run.Heap[actor] // what has to be looked at later
}

func newWorld(plugins []volume.Plugin, limit time.Duration) *world {
	w := &world{
		limit: limit,
		pods:  map[types.UID]*podState{}, shared: map[volume.ID]*sharedState{}, lists: map[string]*listState{},
		objects: map[volume.Object]set[*volumeState]{}, claimed: map[claimKey]set[*volumeState]{},
		unknown: map[string]int{}, unread: set[types.UID]{}, changed: set[types.UID]{},
		due: run.NewHeap(
			func(a, b actor) bool { return a.base().due.Before(b.base().due) },
			func(a actor) *run.Place { return &a.base().place },
		),
	}
	for _, p := range plugins {
		if _, ok := p.(volume.Stager); ok {
			l := &listState{plugin: p}
			w.lists[p.Name()] = l
			w.touch(l)
		}
	}
	return w
}

// next takes what has changed, or has become due, and returns the operations that
// begin now. They count as running.
func (w *world) next(now time.Time) (begun []*operation) {
	for first, ok := w.due.First(); ok && !first.base().due.After(now); first, ok = w.due.First() {
		w.due.Remove(first)
		w.touch(first)
	}
	for len(w.dirty) > 0 {
		a := w.dirty[0]
		w.dirty = w.dirty[1:]
		a.base().dirty = false
		if op := w.look(a, now); op != nil {
			begun = append(begun, op)
		}
	}
	w.dirty = nil
	return begun
}

// look does what is to be done for one actor.
func (w *world) look(a actor, now time.Time) *operation {
	u := a.base()
	w.due.Remove(a)
	if op := u.op; op != nil && !op.stuck && !now.Before(op.stuckAt) {
		w.isStuck(op)
	}
	s := a.next(w, now)
	switch {
	case s.drop:
		w.drop(a)
		return nil
	case s.do != doNothing:
		return w.begin(a, s.do, now)
	case !s.at.IsZero():
		u.due = s.at
		w.due.Put(a)
	}
	w.changes(a)
	return nil
}

// nextDue is when next has something to do without a change.
func (w *world) nextDue() (time.Time, bool) {
	first, ok := w.due.First()
	if !ok {
		return time.Time{}, false
	}
	return first.base().due, true
}

// touch has an actor looked at.
func (w *world) touch(a actor) {
	if u := a.base(); !u.dirty {
		u.dirty = true
		w.dirty = append(w.dirty, a)
	}
}

// touchPod has all volumes of a pod looked at, and the pod.
func (w *world) touchPod(p *podState) {
	w.touch(p)
	for _, v := range p.volumes {
		w.touch(v)
	}
}

// touchShared has a shared volume looked at, and all that wait for it.
func (w *world) touchShared(s *sharedState) {
	if s == nil {
		return
	}
	w.touch(s)
	for v := range s.users {
		w.touch(v)
	}
}

// touchAllShared has all shared volumes looked at: it is known of all that are on the disk,
// or is not any more, who uses them.
func (w *world) touchAllShared() {
	for _, s := range w.shared {
		w.touch(s)
	}
}

// touchPeers has the volumes of other pods looked at that may wait for this one.
func (w *world) touchPeers(v *volumeState) {
	for other := range w.claimed[v.claim()] {
		if other != v {
			w.touch(other)
		}
	}
}

// touchNear has an actor looked at, and those that may wait for it.
func (w *world) touchNear(a actor) {
	w.touch(a)
	switch a := a.(type) {
	case *podState:
		w.touchPod(a)
	case *volumeState:
		w.touchShared(a.shared)
		w.touchPeers(a)
	case *sharedState:
		w.touchShared(a)
	}
}

// touchHeld has all volumes looked at that may be of claims, once nothing is being read:
// they may have waited for that.
func (w *world) touchHeld() {
	if w.reading() {
		return
	}
	for _, volumes := range w.claimed {
		for v := range volumes {
			w.touch(v)
		}
	}
}

// changes notes which pods somebody may wait for have changed.
func (w *world) changes(a actor) {
	switch a := a.(type) {
	case *podState:
		w.changed.add(a.uid)
	case *volumeState:
		w.changed.add(a.pod.uid)
	case *sharedState:
		for v := range a.users {
			w.changed.add(v.pod.uid)
		}
	}
}

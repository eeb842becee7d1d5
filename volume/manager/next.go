package manager

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// maxRefreshing bounds how many volumes are mounted again at the same time, over all
// pods: each of them reads objects.
const maxRefreshing = 16

// patience is how long an operation may take to return after its context has ended,
// before it counts as stuck.
const patience = time.Second

// step is what is to be done for an actor now.
type step struct {
	// do is the operation; doNothing if there is none, or it has to wait.
	do kind
	// why says what is waited for, and on whose operations that depends, if on any.
	why string
	on  actor
	// at is when time alone changes the answer; zero means never.
	at time.Time
	// soon tells that it goes on without anything else having to happen.
	soon bool
	// drop tells that there is nothing left to know.
	drop bool
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

// running is what is waited for while an operation runs.
func (u *unit) running() (step, bool) {
	if u.op == nil {
		return step{}, false
	}
	s := step{why: u.op.String()}
	if !u.op.stuck {
		s.at = u.op.stuckAt
	}
	return s, true
}

// after is an operation, or the pause before it.
func (u *unit) after(k kind, now time.Time) step {
	if at := u.retry.until(k); now.Before(at) {
		return step{why: "the next try to " + k.String(), at: at}
	}
	return step{do: k}
}

// next implements actor: the volumes of a pod come between the two.
func (p *podState) next(w *world, now time.Time) step {
	if s, running := p.running(); running {
		return s
	}
	switch {
	case !p.releasing && w.unread.has(p.uid):
		return p.after(doRead, now)
	case !p.releasing:
		return step{}
	case !p.looked:
		return p.after(doLook, now)
	case len(p.volumes) > 0:
		return step{why: "the unmount of its volumes"}
	}
	return p.after(doFinish, now)
}

// next implements actor.
func (v *volumeState) next(w *world, now time.Time) step {
	if s, running := v.running(); running {
		return s
	}
	switch {
	case v.pod.releasing:
		return v.nextRelease(now)
	case v.wanted:
		return v.nextMount(w, now)
	}
	// Nobody has said that it may go.
	return step{}
}

// nextRelease is what is to be done for a volume that has to go.
func (v *volumeState) nextRelease(now time.Time) step {
	switch {
	case !v.pod.looked:
		return step{why: "the release of sub paths", on: v.pod}
	case v.state == StateNotMounted:
		return step{drop: true}
	case v.shared != nil && v.shared.busy() != nil:
		return step{why: v.shared.op.String(), on: v.shared}
	}
	return v.after(doUnmount, now)
}

// nextMount is what is to be done for a volume that has to be there.
func (v *volumeState) nextMount(w *world, now time.Time) step {
	if v.pod.op != nil {
		return step{why: v.pod.op.String(), on: v.pod}
	}
	again := v.state == StateMounted
	if again && !v.remountDue(now) {
		if v.toExpand() != 0 {
			if v.shared != nil {
				return step{why: "expansion", on: v.shared, at: v.refreshAt}
			}
			return v.after(doExpand, now)
		}
		return step{at: v.refreshAt}
	}
	if s, held := w.heldBy(v); held {
		return s
	}
	if s := v.shared; s != nil {
		switch {
		case s.busy() != nil:
			return step{why: s.op.String(), on: s}
		case !again && !s.attached:
			return step{why: "its attachment to the node", on: s}
		case !again && s.mislabelled(v) && s.first() != v:
			return step{why: fmt.Sprintf("pod %s, which comes first and needs another SELinux label", s.first().pod.name())}
		case !again && (s.stage != StateMounted || s.mislabelled(v)):
			return step{why: "its staging", on: s}
		}
	}
	next := v.after(doMount, now)
	if next.do == doMount && again && w.refreshing >= maxRefreshing {
		if !v.queued {
			v.queued = true
			w.queue = append(w.queue, v)
		}
		return step{why: "the refreshes of other volumes", soon: true}
	}
	return next
}

func (v *volumeState) remountDue(now time.Time) bool {
	return v.remount || !v.refreshAt.IsZero() && !now.Before(v.refreshAt)
}

// toExpand is the size that the volume should have and has not; zero means none.
func (v *volumeState) toExpand() int64 {
	if !v.expands || v.spec == nil || v.spec.Persistent == nil {
		return 0
	}
	capacity := v.spec.Persistent.Spec.Capacity[v1.ResourceStorage]
	size, has := capacity.Value(), v.expandedTo
	if v.shared != nil {
		has = v.shared.expandedTo
	}
	if size <= has {
		return 0
	}
	return size
}

// ready tells that containers may use the volume: it is mounted, and was expanded at
// least once if it can be.
func (v *volumeState) ready() bool {
	expanded := v.expandedTo
	if v.shared != nil {
		expanded = v.shared.expandedTo
	}
	return v.wanted && v.state == StateMounted && (v.toExpand() == 0 || expanded != 0)
}

// heldBy says what keeps a claim that only one pod may have, if something does.
func (w *world) heldBy(v *volumeState) (step, bool) {
	if !ofOnePod(v.spec) {
		return step{}, false
	}
	for other := range w.claimed[v.claim()] {
		if other.pod != v.pod && (other.state != StateNotMounted || other.op != nil) {
			return step{why: fmt.Sprintf("pod %s, which has the volume: it is %s", other.pod.name(), v1.ReadWriteOncePod)}, true
		}
	}
	if len(w.unread) > 0 && v.state == StateNotMounted {
		return step{why: fmt.Sprintf("the disk to be read: the volume is %s", v1.ReadWriteOncePod), soon: w.reading()}, true
	}
	return step{}, false
}

// next implements actor.
func (s *sharedState) next(w *world, now time.Time) step {
	if next, running := s.running(); running {
		return next
	}
	var busy *volumeState
	for v := range s.users {
		if v.op != nil && (busy == nil || v.op.stuck) {
			busy = v // all are waited for; one that is stuck says that this takes a while
		}
	}
	wanted := s.first()
	switch {
	case wanted != nil && s.mislabelled(wanted):
		return s.nextRelabel(w, wanted, now)
	case wanted != nil && !s.attached:
		return s.after(doVerify, now)
	case busy != nil:
		return step{why: busy.op.String(), on: busy}
	case wanted != nil && s.stage != StateMounted:
		return s.after(doStage, now)
	case s.tooSmall() != nil:
		return s.after(doExpand, now)
	case len(s.users) > 0:
		return step{}
	case s.stage == StateNotMounted:
		return step{drop: true}
	case !w.mayUnstage(s.id.Plugin):
		return step{why: "all pods of the node to be known"}
	}
	return s.after(doUnstage, now)
}

// tooSmall is a mount of a shared volume for which it has to be expanded.
func (s *sharedState) tooSmall() *volumeState {
	for v := range s.users {
		if v.wanted && v.state == StateMounted && v.toExpand() != 0 {
			return v
		}
	}
	return nil
}

// busy is what is being done to a shared volume, while which pods do nothing with it.
func (s *sharedState) busy() *operation {
	if s.op != nil && s.op.kind == doVerify {
		return nil
	}
	return s.op
}

// mayUnstage tells that a shared volume without users has none that are not known.
func (w *world) mayUnstage(plugin string) bool {
	return w.complete && len(w.unread) == 0 && w.unknown[plugin] == 0
}

// next implements actor.
func (l *listState) next(_ *world, now time.Time) step {
	if s, running := l.running(); running {
		return s
	}
	if l.done {
		return step{}
	}
	return l.after(doList, now)
}

// moves tells whether something goes on for an actor: an operation runs or begins, and
// not only after a pause or when others have done something.
func (w *world) moves(a actor, now time.Time) bool {
	if op := a.base().op; op != nil {
		return !op.stuck
	}
	s := a.next(w, now)
	if s.do != doNothing || s.soon || s.drop {
		return true
	}
	return s.on != nil && w.moves(s.on, now)
}

// ready tells that containers may use all volumes of a pod.
func (p *podState) ready() bool {
	for _, n := range p.names {
		if n.volume == nil || !n.volume.ready() {
			return false
		}
	}
	return true
}

// prepared tells that there is nothing more to wait for before containers start, or are
// told why they cannot: all volumes are ready, and for the patient those brought up to
// date that can be; or none that is missing moves.
func (w *world) prepared(p *podState, patient bool, now time.Time) bool {
	if p.ready() {
		return !patient || !w.refreshes(p, now)
	}
	return !slices.ContainsFunc(p.wanted(), func(v *volumeState) bool { return !v.ready() && w.moves(v, now) })
}

// refreshes tells whether a volume of a pod is being brought up to date.
func (w *world) refreshes(p *podState, now time.Time) bool {
	for _, v := range p.wanted() {
		running := v.op != nil && v.op.again
		if (running || v.remountDue(now)) && w.moves(v, now) {
			return true
		}
	}
	return false
}

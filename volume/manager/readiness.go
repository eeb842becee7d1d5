package manager

import (
	"slices"
	"time"
)

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

// ready tells that containers may use the volume: it is mounted, and was expanded at
// least once if it can be.
func (v *volumeState) ready() bool {
	expanded := v.expandedTo
	if v.shared != nil {
		expanded = v.shared.expandedTo
	}
	return v.wanted && v.state == StateMounted && (v.toExpand() == 0 || expanded != 0)
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

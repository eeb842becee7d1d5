package manager

import (
	"slices"
	"time"
)

// progresses reports whether an item makes progress: an operation runs or starts, without a wait for
// back-off or for others.
func (rc *reconciler) progresses(a item, now time.Time) bool {
	if op := a.base().op; op != nil {
		return !op.stuck
	}
	s := a.next(rc, now)
	if s.do != doNothing || s.continues || s.drop {
		return true
	}
	return s.on != nil && rc.progresses(s.on, now)
}

// ready reports whether containers may use all volumes of the pod.
func (p *podState) ready() bool {
	for _, n := range p.names {
		if n.volume == nil || !n.volume.ready() {
			return false
		}
	}
	return true
}

// ready reports whether containers may use the volume: it is mounted, and was expanded at least
// once if it can be.
func (v *volumeState) ready() bool {
	expanded := v.expandedTo
	if v.shared != nil {
		expanded = v.shared.expandedTo
	}
	return v.wanted && v.state == StateMounted && (v.toExpand() == 0 || expanded != 0)
}

// prepared reports whether the wait of a Prepare is over: all volumes are ready, and with
// refreshed also up to date; or no operation can make the missing ones ready now.
func (rc *reconciler) prepared(p *podState, refreshed bool, now time.Time) bool {
	if p.ready() {
		return !refreshed || !rc.refreshes(p, now)
	}
	return !slices.ContainsFunc(p.wanted(), func(v *volumeState) bool { return !v.ready() && rc.progresses(v, now) })
}

// refreshes reports whether a refresh of a pod's volume is in progress or due.
func (rc *reconciler) refreshes(p *podState, now time.Time) bool {
	for _, v := range p.wanted() {
		running := v.op != nil && v.op.again
		if (running || v.remountDue(now)) && rc.progresses(v, now) {
			return true
		}
	}
	return false
}

package manager

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

type step struct {
	// do is the operation, or doNothing.
	do kind
	// why is the reason to wait. on is the item that it waits for, if there is one.
	why string
	on  item
	// at is the time of the next change without an event. Zero means never.
	at time.Time
	// continues is true if the item continues without an event from outside.
	continues bool
	// drop is true if the item has no remains.
	drop bool
}

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

// after returns a step with the operation, or with its back-off.
func (u *unit) after(k kind, now time.Time) step {
	if at := u.retry.until(k); now.Before(at) {
		return step{why: "the next try to " + k.String(), at: at}
	}
	return step{do: k}
}

// next implements item. The volumes of a pod are released between doScan and doFinish.
func (p *podState) next(rc *reconciler, now time.Time) step {
	if s, running := p.running(); running {
		return s
	}
	switch {
	case !p.releasing && rc.unread.has(p.uid):
		return p.after(doRead, now)
	case !p.releasing:
		return step{}
	case !p.scanned:
		return p.after(doScan, now)
	case len(p.volumes) > 0:
		return step{why: "the unmount of its volumes"}
	}
	return p.after(doFinish, now)
}

func (v *volumeState) next(rc *reconciler, now time.Time) step {
	if s, running := v.running(); running {
		return s
	}
	switch {
	case v.pod.releasing:
		return v.nextRelease(now)
	case v.wanted:
		return v.nextMount(rc, now)
	}
	// A volume of a pod without Prepare or Release stays as it is.
	return step{}
}

func (v *volumeState) nextRelease(now time.Time) step {
	switch {
	case !v.pod.scanned:
		return step{why: "the release of sub paths", on: v.pod}
	case v.state == StateNotMounted:
		return step{drop: true}
	case v.shared != nil && v.shared.busy() != nil:
		return step{why: v.shared.op.String(), on: v.shared}
	}
	return v.after(doUnmount, now)
}

func (v *volumeState) nextMount(rc *reconciler, now time.Time) step {
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
	if s, blocked := rc.claimHolder(v); blocked {
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
	if next.do == doMount && again && rc.slots.full(v) {
		return step{why: "the refreshes of other volumes", continues: true}
	}
	return next
}

func (v *volumeState) remountDue(now time.Time) bool {
	return v.remount || !v.refreshAt.IsZero() && !now.Before(v.refreshAt)
}

// toExpand returns the size to which the volume must be expanded, or zero.
func (v *volumeState) toExpand() int64 {
	if !v.expands || v.spec == nil || v.spec.Persistent == nil {
		return 0
	}
	capacity := v.spec.Persistent.Spec.Capacity[v1.ResourceStorage]
	size, current := capacity.Value(), v.expandedTo
	if v.shared != nil {
		current = v.shared.expandedTo
	}
	if size <= current {
		return 0
	}
	return size
}

func (s *sharedState) next(rc *reconciler, now time.Time) step {
	if next, running := s.running(); running {
		return next
	}
	var busy *volumeState
	for v := range s.users {
		if v.op != nil && (busy == nil || v.op.stuck) {
			busy = v // the volume waits for all of them; a stuck one is the best explanation
		}
	}
	wanted := s.first()
	switch {
	case wanted != nil && s.mislabelled(wanted):
		return s.nextRelabel(rc, wanted, now)
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
	case !rc.mayUnstage(s.id.Plugin):
		return step{why: "all pods of the node to be listed"}
	}
	return s.after(doUnstage, now)
}

// tooSmall returns a mount for which a shared volume must be expanded.
func (s *sharedState) tooSmall() *volumeState {
	for v := range s.users {
		if v.wanted && v.state == StateMounted && v.toExpand() != 0 {
			return v
		}
	}
	return nil
}

// busy returns the operation on a shared volume that blocks operations of its pods.
func (s *sharedState) busy() *operation {
	if s.op != nil && s.op.kind == doVerify {
		return nil
	}
	return s.op
}

// mislabelled reports whether a volume may be staged with a different label than its next user
// needs. The label of a volume from the disk is unknown.
func (s *sharedState) mislabelled(v *volumeState) bool {
	return v.state == StateNotMounted && s.stage != StateNotMounted && s.label != v.label
}

func (s *sharedState) nextRelabel(rc *reconciler, v *volumeState, now time.Time) step {
	for other := range s.users {
		if other.op != nil || other.state != StateNotMounted {
			return step{why: fmt.Sprintf("pod %s, which has the volume with another SELinux label", other.pod.name())}
		}
	}
	if !rc.mayUnstage(s.id.Plugin) {
		return step{why: "all pods of the node to be listed"}
	}
	return s.after(doUnstage, now)
}

// mayUnstage reports whether the users of all shared volumes of a plugin are known.
func (rc *reconciler) mayUnstage(plugin string) bool {
	return rc.complete && len(rc.unread) == 0 && rc.unknown[plugin] == 0
}

func (l *listState) next(_ *reconciler, now time.Time) step {
	if s, running := l.running(); running {
		return s
	}
	if l.done {
		return step{}
	}
	return l.after(doList, now)
}

package manager

import (
	"time"

	"github.com/podwright/podwright/volume"
)

// cancelled notes that the context of an operation has ended.
func (w *world) cancelled(op *operation, now time.Time) {
	if at := now.Add(patience); at.Before(op.stuckAt) {
		op.stuckAt = at
		w.touch(op.on)
	}
}

// isStuck notes that an operation does not end. Others go on.
func (w *world) isStuck(op *operation) {
	op.stuck = true
	w.refreshed(op)
	w.touchNear(op.on)
	if p, ok := op.on.(*podState); ok && w.unread.has(p.uid) {
		w.touchHeld()
	}
}

// refreshed makes room for another refresh.
func (w *world) refreshed(op *operation) {
	if !op.refreshes {
		return
	}
	op.refreshes = false
	w.refreshing--
	for free := maxRefreshing - w.refreshing; free > 0 && len(w.queue) > 0; free-- {
		v := w.queue[0]
		w.queue = w.queue[1:]
		v.queued = false
		w.touch(v)
	}
}

// begin makes the operation that next has decided on.
func (w *world) begin(a actor, k kind, now time.Time) *operation {
	op := &operation{kind: k, on: a, began: now, stuckAt: now.Add(w.limit + patience)}
	a.base().op = op
	switch a := a.(type) {
	case *podState:
		op.uid, op.name = a.uid, k.String()+" of pod "+a.name()
	case *volumeState:
		w.beginVolume(a, op)
	case *sharedState:
		op.name = k.String() + " of volume " + a.id.String()
		op.plugin, op.id, op.spec, op.staged = a.plugin, a.id, a.spec, a.path
		op.block = a.spec != nil && a.spec.Block()
		op.stage = volume.Stage{ID: a.id.Volume, Spec: a.spec, DevicePath: a.devicePath, Found: a.found || !w.lists[a.id.Plugin].done}
		if user := a.user(k); user != nil {
			op.pod, op.uid, op.size = user.pod.pod, user.pod.uid, user.toExpand()
			op.stage.FSGroup, op.stage.SELinuxLabel = fsGroup(user.pod.pod), user.label
			if k == doStage {
				a.label = user.label
			}
			op.mount.Pod, op.unmount, op.grown = user.pod.pod, user.unmount(), a.expandedTo
		}
	case *listState:
		op.plugin, op.name = a.plugin, k.String()+" by "+a.plugin.Name()
	}
	w.touchNear(a)
	return op
}

// user is a pod's volume for which something is done to a shared one: one to be expanded
// for, or the first that is wanted.
func (s *sharedState) user(k kind) *volumeState {
	if k == doExpand {
		return s.tooSmall()
	}
	return s.first()
}

func (w *world) beginVolume(v *volumeState, op *operation) {
	op.plugin, op.block, op.uid, op.pod = v.plugin, v.key.block, v.pod.uid, v.pod.pod
	op.name = op.kind.String() + " of volume " + v.key.name + " of pod " + v.pod.name()
	op.spec, op.size, op.grown, op.unmount = v.spec, v.toExpand(), v.expandedTo, v.unmount()
	if v.shared != nil {
		op.staged = v.shared.path
	}
	if op.kind == doUnmount {
		v.set(StateUncertain, op.began) // from now on
		op.forced = v.unknown
	}
	if op.kind != doMount {
		return
	}
	op.mount = mountOf(v.pod.pod, v.spec)
	op.mount.Inside, op.mount.Staged = v.inside, op.staged
	op.mount.SELinuxLabel = v.label
	op.mount.Again, op.mount.Found = v.state == StateMounted, v.found || w.unread.has(v.pod.uid)
	v.remount, v.refreshAt = false, time.Time{}
	if op.again = op.mount.Again; op.again {
		op.refreshes = true
		w.refreshing++
	} else {
		op.first = v.requestedAt
	}
}

func (v *volumeState) unmount() volume.Unmount {
	return volume.Unmount{Pod: v.pod.uid, Name: v.key.name, Block: v.key.block}
}

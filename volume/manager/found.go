package manager

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// isOnDisk takes what was found of a pod. What is mounted already is known better, and what
// is being mounted where nothing was before is what that makes: its end will tell.
func (w *world) isOnDisk(p *podState, volumes []found, now time.Time) {
	for _, f := range volumes {
		v := w.volume(p, f.key, f.plugin)
		if v.state != StateNotMounted || v.op != nil && !v.op.mount.Found {
			continue
		}
		v.set(StateUncertain, now)
		v.found = true
		if v.spec == nil {
			w.setShared(v, f.shared, f.unknown)
			if v.shared != nil && v.shared.stage == StateNotMounted {
				v.shared.stage, v.shared.found = StateUncertain, true
			}
		}
		w.touchPeers(v)
		w.touchShared(v.shared)
	}
}

// toRead says of which pods there are folders.
func (w *world) toRead(uids []types.UID) {
	for _, uid := range uids {
		w.unread.add(uid)
		w.touch(w.pod(uid))
	}
}

// isRead notes that it is known what the disk has of a pod. With the last of them it is
// known of every volume who uses it.
func (w *world) isRead(uid types.UID) {
	if !w.unread.has(uid) {
		return
	}
	delete(w.unread, uid)
	if len(w.unread) == 0 {
		w.touchAllShared()
	}
}

// listed tells that it is known what is staged, as far as that can be found out.
func (w *world) listed() bool {
	for _, l := range w.lists {
		if !l.done && l.err == nil {
			return false
		}
	}
	return true
}

// reading tells that some pod on disk is being read.
func (w *world) reading() bool {
	for uid := range w.unread {
		if op := w.pods[uid].op; op == nil && w.pods[uid].err == nil || op != nil && !op.stuck {
			return true
		}
	}
	return false
}

// forgetIfEmpty forgets a pod of which only a folder was found.
func (w *world) forgetIfEmpty(p *podState) {
	if p.pod == nil && !p.releasing && len(p.volumes) == 0 {
		delete(w.pods, p.uid)
	}
}

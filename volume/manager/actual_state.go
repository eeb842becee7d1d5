package manager

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

// actualState has the volumes that pods share, and the parts of the disk that were not read.
type actualState struct {
	shared map[volume.ID]*sharedState
	lists  map[string]*listState
	// unknown counts by plugin the volumes on the disk that may be shared, but whose id is
	// unknown. unread has the pods whose folders were not read yet. Either prevents the unstage
	// of volumes.
	unknown map[string]int
	unread  set[types.UID]
}

func (rc *reconciler) pod(uid types.UID) *podState {
	p := rc.pods[uid]
	if p == nil {
		p = &podState{uid: uid, volumes: map[volumeKey]*volumeState{}, names: map[string]*nameState{}}
		rc.pods[uid] = p
	}
	return p
}

func (rc *reconciler) volume(p *podState, key volumeKey, plugin volume.Plugin) *volumeState {
	v := p.volumes[key]
	if v == nil {
		v = &volumeState{pod: p, key: key, plugin: plugin}
		p.volumes[key] = v
		rc.setClaim(v)
	}
	return v
}

func (a *actualState) sharedVolume(id volume.ID, plugin volume.Plugin) *sharedState {
	s := a.shared[id]
	if s == nil {
		s = &sharedState{id: id, plugin: plugin, users: set[*volumeState]{}}
		a.shared[id] = s
	}
	return s
}

// setShared sets the shared volume of v. An empty id means none. unknown means that v may be
// shared, but its id is unknown.
func (rc *reconciler) setShared(v *volumeState, id string, unknown bool) {
	if v.unknown != unknown {
		v.unknown = unknown
		if unknown {
			rc.unknown[v.key.plugin]++
		} else if rc.unknown[v.key.plugin]--; rc.unknown[v.key.plugin] == 0 {
			delete(rc.unknown, v.key.plugin)
			rc.touchAllShared()
		}
	}
	if s := v.shared; s != nil && s.id.Volume != id {
		delete(s.users, v)
		rc.touchShared(s)
		v.shared = nil
	}
	if id != "" && v.shared == nil {
		v.shared = rc.sharedVolume(volume.ID{Plugin: v.key.plugin, Volume: id}, v.plugin)
		v.shared.users.add(v)
		rc.touch(v.shared)
	}
}

func (a *actualState) inUse() (names []string) {
	for id, s := range a.shared {
		if len(s.users) == 0 && s.stage == StateNotMounted {
			continue // about to be dropped
		}
		if _, may := s.plugin.(volume.Attachable); s.attachable || may && !s.verified {
			names = append(names, id.String())
		}
	}
	slices.Sort(names)
	return names
}

// drop removes a volume without remains. The objects of the volume were removed when its pod
// was released.
func (rc *reconciler) drop(a item) {
	switch a := a.(type) {
	case *volumeState:
		if a.pod.volumes[a.key] != a {
			return // dropped before; key may belong to another volume now
		}
		rc.setShared(a, "", false)
		remove(rc.claimed, a.claim(), a)
		delete(a.pod.volumes, a.key)
		rc.touch(a.pod)
	case *sharedState:
		if rc.shared[a.id] == a {
			delete(rc.shared, a.id)
		}
	}
}

func (rc *reconciler) end(op *operation, out outcome, now time.Time) {
	u := op.on.base()
	u.op = nil
	rc.endRefresh(op)
	if out.err != nil {
		u.err, u.errAt, u.errOf = out.err, now, op.kind
		u.retry.failed(op.kind, now)
	} else {
		u.err, u.errAt, u.errOf, u.retry = nil, time.Time{}, doNothing, retry{}
	}
	switch a := op.on.(type) {
	case *podState:
		rc.endPod(a, op, &out, now)
	case *volumeState:
		a.end(op, &out, now)
	case *sharedState:
		a.end(op, &out)
	case *listState:
		rc.endList(a, &out)
	}
	rc.touchDependents(op.on)
}

func (rc *reconciler) endPod(p *podState, op *operation, out *outcome, now time.Time) {
	rc.changes(p)
	rc.addFound(p, out.found, now)
	unread := rc.unread.has(p.uid)
	switch {
	case out.err != nil:
		// Sub paths must be unmounted before their volumes, so their error delays the whole
		// release.
	case op.kind == doScan, op.kind == doRead:
		p.scanned = op.kind == doScan && !op.outdated
		rc.markRead(p.uid)
		rc.forgetIfEmpty(p)
	case p.releasing && len(p.volumes) == 0:
		p.releasing = false
		delete(rc.pods, p.uid)
	}
	if unread {
		rc.touchClaimed()
	}
}

func (v *volumeState) end(op *operation, out *outcome, now time.Time) {
	switch {
	case op.kind == doExpand:
		v.expandedTo = max(v.expandedTo, out.size)
	case op.kind == doUnmount && out.err == nil:
		v.set(StateNotMounted, now)
		v.found, v.mounted, v.expandedTo, v.refreshAt = false, volume.Mounted{}, 0, time.Time{}
	case op.kind == doUnmount: // it stays uncertain
	case op.again && out.err != nil:
		v.remount = true // the existing mount stays
	default:
		v.set(out.after(v.state, op.mount.Found), now)
		if out.err == nil {
			v.mounted, v.found = out.mounted, false
			v.refreshAt = refreshAt(out.mounted.RefreshAt, now)
		}
	}
}

// refreshAt returns the time of the next refresh, at least a second after now.
func refreshAt(at, now time.Time) time.Time {
	if soonest := now.Add(time.Second); !at.IsZero() && at.Before(soonest) {
		return soonest
	}
	return at
}

func (s *sharedState) end(op *operation, out *outcome) {
	switch op.kind {
	case doVerify:
		s.attachable = out.attach || s.attachable && out.err != nil
		s.verified = s.verified || out.attach || out.err == nil
		s.attached, s.devicePath = out.err == nil, out.device
	case doStage:
		s.stage = out.after(s.stage, op.stage.Found || s.found) // found may be set during the operation
		if out.err == nil {
			s.path, s.found = out.path, false
		}
	case doExpand:
		s.expandedTo = max(s.expandedTo, out.size)
	case doUnstage:
		if s.stage = StateUncertain; out.err == nil {
			s.stage = StateNotMounted
			s.path, s.found, s.attached, s.expandedTo = "", false, false, 0
		}
	}
}

func (rc *reconciler) endList(l *listState, out *outcome) {
	l.done = out.err == nil
	for _, id := range out.ids {
		s := rc.sharedVolume(volume.ID{Plugin: l.plugin.Name(), Volume: id}, l.plugin)
		if s.stage == StateNotMounted {
			s.stage, s.found = StateUncertain, true
			rc.touchShared(s)
		}
	}
}

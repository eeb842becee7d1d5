package volume

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// resolved is a volume that a pod uses, as far as its plugin and its claim say.
type resolved struct {
	name     string
	err      error // it could not be resolved; the rest is zero
	plugin   Plugin
	spec     *Spec
	inside   []string
	shared   string
	remounts bool
	objects  []Object
}

func (r *resolved) key() volumeKey {
	return volumeKey{r.plugin.Name(), r.spec.Name, r.spec.Block()}
}

// pod returns what is known about a pod, and makes it if need be.
func (w *world) pod(uid types.UID) *podState {
	p := w.pods[uid]
	if p == nil {
		p = &podState{uid: uid, volumes: map[volumeKey]*volumeState{}, names: map[string]*nameState{}}
		w.pods[uid] = p
	}
	return p
}

// want says what a pod needs. What could be resolved before and cannot be now stays.
func (w *world) want(pod *v1.Pod, volumes []resolved, now time.Time) *podState {
	p := w.pod(pod.UID)
	p.pod, p.releasing, p.looked, p.awaited = pod, false, false, false
	before := p.names
	p.names, p.order = map[string]*nameState{}, nil
	for _, v := range p.volumes {
		v.wanted = false
	}
	for i := range volumes {
		r := &volumes[i]
		p.order = append(p.order, r.name)
		n := before[r.name]
		switch {
		case r.err == nil:
			n = w.wantVolume(p, r, now)
		case n == nil:
			n = &nameState{}
			fallthrough
		default:
			n.err, n.errAt = r.err, now
			n.retry.failed(doNothing, now)
		}
		p.names[r.name] = n
		if n.volume != nil {
			n.volume.wanted = true
		}
	}
	for _, v := range p.volumes {
		v.remount = v.remount || v.wanted && v.remounts && v.state == StateMounted
	}
	w.touchPod(p)
	return p
}

func (w *world) wantVolume(p *podState, r *resolved, now time.Time) *nameState {
	v := w.volume(p, r.key(), r.plugin)
	switch {
	case !v.wanted || v.spec == nil:
		v.spec, v.inside = r.spec, r.inside
		if v.requestedAt.IsZero() {
			v.requestedAt = now
		}
	default: // another name of the same
		v.inside = slices.Compact(slices.Sorted(slices.Values(slices.Concat(v.inside, r.inside))))
		if !r.spec.ReadOnly {
			v.spec = r.spec
		}
	}
	_, v.expands = r.plugin.(Expander)
	v.wanted, v.remounts = true, r.remounts
	w.setClaim(v)
	w.setObjects(v, r.objects)
	w.setShared(v, r.shared, false)
	if v.shared != nil {
		v.shared.spec = r.spec
		w.touch(v.shared)
	}
	return &nameState{volume: v, readOnly: r.spec.ReadOnly}
}

// volume returns a volume of a pod, and makes it if need be.
func (w *world) volume(p *podState, key volumeKey, plugin Plugin) *volumeState {
	v := p.volumes[key]
	if v == nil {
		v = &volumeState{pod: p, key: key, plugin: plugin}
		p.volumes[key] = v
		w.setClaim(v)
	}
	return v
}

func (v *volumeState) claim() claimKey { return claimKey{v.key.plugin, v.key.name} }

// setClaim lists a volume with those that may be of the same claim: those that are
// known not to be of one are not.
func (w *world) setClaim(v *volumeState) {
	peers := w.claimed[v.claim()]
	if v.spec != nil && v.spec.Persistent == nil {
		remove(w.claimed, v.claim(), v)
		w.touchPeers(v)
		return
	}
	if peers == nil {
		peers = set[*volumeState]{}
		w.claimed[v.claim()] = peers
	}
	peers.add(v)
}

// touchPeers has the volumes of other pods looked at that may wait for this one.
func (w *world) touchPeers(v *volumeState) {
	for other := range w.claimed[v.claim()] {
		if other != v {
			w.touch(other)
		}
	}
}

func remove[K, T comparable](m map[K]set[T], key K, x T) {
	delete(m[key], x)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}

func (w *world) setObjects(v *volumeState, objects []Object) {
	for _, o := range v.objects {
		remove(w.objects, o, v)
	}
	v.objects = objects
	for _, o := range objects {
		if w.objects[o] == nil {
			w.objects[o] = set[*volumeState]{}
		}
		w.objects[o].add(v)
	}
}

// setShared says which shared volume it is, none if id is empty, or that this is not
// known.
func (w *world) setShared(v *volumeState, id string, unknown bool) {
	if v.unknown != unknown {
		v.unknown = unknown
		if unknown {
			w.unknown[v.key.plugin]++
		} else if w.unknown[v.key.plugin]--; w.unknown[v.key.plugin] == 0 {
			delete(w.unknown, v.key.plugin)
			w.touchUnused()
		}
	}
	if s := v.shared; s != nil && s.id.Volume != id {
		delete(s.users, v)
		w.touchShared(s)
		v.shared = nil
	}
	if id != "" && v.shared == nil {
		v.shared = w.sharedVolume(ID{Plugin: v.key.plugin, Volume: id}, v.plugin)
		v.shared.users.add(v)
		w.touch(v.shared)
	}
}

func (w *world) sharedVolume(id ID, plugin Plugin) *sharedState {
	s := w.shared[id]
	if s == nil {
		s = &sharedState{id: id, plugin: plugin, users: set[*volumeState]{}}
		w.shared[id] = s
	}
	return s
}

// release says that a pod has to have nothing. It returns the operations that have to
// be cancelled.
func (w *world) release(uid types.UID) (p *podState, cancelled []*operation) {
	p = w.pod(uid)
	if p.releasing {
		return p, nil
	}
	p.releasing, p.looked, p.awaited = true, false, false
	p.names, p.order = map[string]*nameState{}, nil
	for _, v := range p.volumes {
		v.wanted = false
		w.setObjects(v, nil)
		w.touchShared(v.shared)
		if v.op != nil && (v.op.kind == doMount || v.op.kind == doExpand) {
			cancelled = append(cancelled, v.op)
		}
	}
	w.touchPod(p)
	return p, cancelled
}

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

// lookAgain has everything tried again at once that waits for volumes to be attached.
func (w *world) lookAgain() {
	for _, s := range w.shared {
		if s.retry.kind == doVerify {
			s.retry = retry{}
			w.touchShared(s)
		}
	}
}

// objectChanged has volumes mounted again that depend on an object, at once.
func (w *world) objectChanged(o Object) {
	of := func(o Object) {
		for v := range w.objects[o] {
			v.remount = v.state == StateMounted || v.op != nil
			v.retry = retry{}
			w.touch(v)
		}
	}
	if o.Name == "" {
		for other := range w.objects {
			if other.Kind == o.Kind && (o.Namespace == "" || other.Namespace == o.Namespace) {
				of(other)
			}
		}
		return
	}
	all := set[Object]{}
	for _, x := range []Object{o, {Kind: o.Kind, Namespace: o.Namespace}, {Kind: o.Kind}} {
		all.add(x)
	}
	for x := range all {
		of(x)
	}
}

// isOnDisk takes what was found of a pod. What is mounted already is known better.
func (w *world) isOnDisk(p *podState, volumes []found, now time.Time) {
	for _, f := range volumes {
		v := w.volume(p, f.key, f.plugin)
		if v.state != StateNotMounted || v.op != nil {
			continue
		}
		v.set(StateUncertain, now)
		v.found = true
		if v.spec == nil {
			w.setShared(v, f.shared, f.unknown)
			if v.shared != nil && v.shared.stage == StateNotMounted && v.shared.op == nil {
				v.shared.stage, v.shared.found = StateUncertain, true
			}
		}
		w.touch(v)
		w.touchPeers(v)
	}
}

func (v *volumeState) set(s State, now time.Time) {
	if v.state != s || v.since.IsZero() {
		v.state, v.since = s, now
	}
}

// drop forgets what there is nothing left of.
func (w *world) drop(a actor) {
	switch a := a.(type) {
	case *volumeState:
		if a.pod.volumes[a.key] != a {
			return // it was dropped before, and there may be another one
		}
		w.setObjects(a, nil)
		w.setShared(a, "", false)
		remove(w.claimed, a.claim(), a)
		w.touchPeers(a)
		delete(a.pod.volumes, a.key)
		w.touch(a.pod)
	case *sharedState:
		if w.shared[a.id] == a {
			delete(w.shared, a.id)
		}
	}
	w.changes(a)
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

// touchNear has an actor looked at, and those that may wait for it.
func (w *world) touchNear(a actor) {
	w.touch(a)
	switch a := a.(type) {
	case *podState:
		w.touchPod(a)
	case *volumeState:
		w.touch(a.pod)
		w.touchShared(a.shared)
		w.touchPeers(a)
	case *sharedState:
		w.touchShared(a)
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
		op.stage = Stage{ID: a.id.Volume, Spec: a.spec, DevicePath: a.devicePath, Found: a.found || !w.lists[a.id.Plugin].done}
		if user := a.user(k); user != nil {
			op.pod, op.uid, op.size = user.pod.pod, user.pod.uid, user.toExpand()
			op.stage.FSGroup = fsGroup(user.pod.pod)
			op.mount.Pod, op.unmount = user.pod.pod, user.unmount()
		}
	case *listState:
		op.plugin, op.name = a.plugin, k.String()+" by "+a.plugin.Name()
	}
	w.touchNear(a)
	return op
}

// user is a pod's volume for which something is done to a shared one: the one to be
// expanded for, or any that is wanted.
func (s *sharedState) user(k kind) (user *volumeState) {
	for v := range s.users {
		switch {
		case !v.wanted || v.pod.releasing:
		case k != doExpand || v.state == StateMounted && v.toExpand() > 0:
			user = v
		}
	}
	return user
}

func (w *world) beginVolume(v *volumeState, op *operation) {
	op.plugin, op.block, op.uid, op.pod = v.plugin, v.key.block, v.pod.uid, v.pod.pod
	op.name = op.kind.String() + " of volume " + v.key.name + " of pod " + v.pod.name()
	op.spec, op.size, op.unmount = v.spec, v.toExpand(), v.unmount()
	if v.shared != nil {
		op.staged = v.shared.path
	}
	if op.kind == doUnmount {
		v.set(StateUncertain, op.began) // from now on
	}
	if op.kind != doMount {
		return
	}
	op.mount = mountOf(v.pod.pod, v.spec)
	op.mount.Inside, op.mount.Staged = v.inside, op.staged
	op.mount.Again, op.mount.Found = v.state == StateMounted, v.found || w.unread.has(v.pod.uid)
	v.remount, v.refreshAt = false, time.Time{}
	if op.again = op.mount.Again; op.again {
		op.refreshes = true
		w.refreshing++
	} else {
		op.first = v.requestedAt
	}
}

func (v *volumeState) unmount() Unmount {
	return Unmount{Pod: v.pod.uid, Name: v.key.name, Block: v.key.block}
}

// end takes the outcome of an operation.
func (w *world) end(op *operation, out outcome, now time.Time) {
	u := op.on.base()
	u.op = nil
	w.refreshed(op)
	if out.err != nil {
		u.err, u.errAt = out.err, now
		u.retry.failed(op.kind, now)
	} else {
		u.err, u.errAt, u.retry = nil, time.Time{}, retry{}
	}
	switch a := op.on.(type) {
	case *podState:
		w.endPod(a, op, &out, now)
	case *volumeState:
		a.end(op, &out, now)
	case *sharedState:
		a.end(op, &out)
	case *listState:
		w.endList(a, &out)
	}
	w.touchNear(op.on)
}

func (w *world) endPod(p *podState, op *operation, out *outcome, now time.Time) {
	w.changes(p)
	w.isOnDisk(p, out.found, now)
	unread := w.unread.has(p.uid)
	switch {
	case out.err != nil:
		// What is mounted from a volume goes before it: an error of the sub paths holds up
		// everything.
	case op.kind == doLook, op.kind == doRead:
		p.looked = p.releasing && op.kind == doLook
		w.isRead(p.uid)
		w.forgetIfEmpty(p)
	case p.releasing && len(p.volumes) == 0:
		p.releasing = false
		delete(w.pods, p.uid)
	}
	if unread {
		w.touchHeld()
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
	delete(w.unread, uid)
	if len(w.unread) == 0 && !w.read {
		w.read = true
		w.touchUnused()
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
	if p.pod == nil && !p.releasing && p.op == nil && len(p.volumes) == 0 {
		delete(w.pods, p.uid)
	}
}

func (v *volumeState) end(op *operation, out *outcome, now time.Time) {
	switch {
	case op.kind == doExpand:
		if out.err == nil {
			v.expandedTo = op.size
		}
	case op.kind == doUnmount && out.err == nil:
		v.set(StateNotMounted, now)
		v.found, v.mounted, v.expandedTo, v.refreshAt = false, Mounted{}, 0, time.Time{}
	case op.kind == doUnmount: // it stays uncertain
	case op.again && out.err != nil:
		v.remount = true // what is mounted stays
	default:
		v.set(out.after(v.state, op.mount.Found), now)
		if out.err == nil {
			v.mounted, v.found = out.mounted, false
			v.refreshAt = refreshAt(out.mounted.RefreshAt, now)
		}
	}
}

// refreshAt is not at once, whatever a plugin says.
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
		s.attached, s.devicePath = out.err == nil, out.device
	case doStage:
		s.stage = out.after(s.stage, op.stage.Found)
		if out.err == nil {
			s.path, s.found = out.path, false
		}
	case doExpand:
		if out.err == nil {
			s.expandedTo = op.size
		}
	case doUnstage:
		if s.stage = StateUncertain; out.err == nil {
			s.stage = StateNotMounted
			s.path, s.found, s.attached, s.expandedTo = "", false, false, 0
		}
	}
}

func (w *world) endList(l *listState, out *outcome) {
	l.done = out.err == nil
	for _, id := range out.ids {
		s := w.sharedVolume(ID{Plugin: l.plugin.Name(), Volume: id}, l.plugin)
		if s.stage == StateNotMounted && s.op == nil {
			s.stage, s.found = StateUncertain, true
			w.touchShared(s)
		}
	}
}

// inUse are the names of the volumes that have to stay attached.
func (w *world) inUse() (names []string) {
	for id, s := range w.shared {
		if s.attachable {
			names = append(names, id.String())
		}
	}
	slices.Sort(names)
	return names
}

// wanted are the volumes that a pod uses, each once, in the order of its spec.
func (p *podState) wanted() (out []*volumeState) {
	for _, name := range p.order {
		if v := p.names[name].volume; v != nil && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// rest are the volumes of a pod that it does not use, sorted.
func (p *podState) rest() (out []*volumeState) {
	used := p.wanted()
	for _, v := range p.volumes {
		if !slices.Contains(used, v) {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *volumeState) int {
		return cmp.Or(cmp.Compare(a.key.name, b.key.name), cmp.Compare(a.key.plugin, b.key.plugin))
	})
	return out
}

package manager

import "github.com/podwright/podwright/volume"

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

func (w *world) setObjects(v *volumeState, objects []volume.Object) {
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
			w.touchAllShared()
		}
	}
	if s := v.shared; s != nil && s.id.Volume != id {
		delete(s.users, v)
		w.touchShared(s)
		v.shared = nil
	}
	if id != "" && v.shared == nil {
		v.shared = w.sharedVolume(volume.ID{Plugin: v.key.plugin, Volume: id}, v.plugin)
		v.shared.users.add(v)
		w.touch(v.shared)
	}
}

func (w *world) sharedVolume(id volume.ID, plugin volume.Plugin) *sharedState {
	s := w.shared[id]
	if s == nil {
		s = &sharedState{id: id, plugin: plugin, users: set[*volumeState]{}}
		w.shared[id] = s
	}
	return s
}

// drop forgets what there is nothing left of. The objects of a volume were forgotten when its
// pod was released.
func (w *world) drop(a actor) {
	switch a := a.(type) {
	case *volumeState:
		if a.pod.volumes[a.key] != a {
			return // it was dropped before, and there may be another one
		}
		w.setShared(a, "", false)
		remove(w.claimed, a.claim(), a)
		delete(a.pod.volumes, a.key)
		w.touch(a.pod)
	case *sharedState:
		if w.shared[a.id] == a {
			delete(w.shared, a.id)
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

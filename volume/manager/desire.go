package manager

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

// resolved is a volume that a pod uses, as far as its plugin and its claim say.
type resolved struct {
	name string
	// claim tells that its claim has to be read yet, and err that it could not be
	// resolved; the rest is zero.
	claim    bool
	err      error
	plugin   volume.Plugin
	spec     *volume.Spec
	inside   []string
	shared   string
	remounts bool
	objects  []volume.Object
	label    string // to mount it with
	asks     string // the label that the pod needs
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

// want says what a pod needs. Claims that are not read yet follow.
func (w *world) want(pod *v1.Pod, volumes []resolved, now time.Time) *podState {
	p := w.pod(pod.UID)
	p.pod, p.releasing, p.looked, p.awaited = pod, false, false, false
	if p.op != nil {
		p.op.outdated = true
	}
	before := p.names
	p.names, p.order = map[string]*nameState{}, nil
	for _, v := range p.volumes {
		v.wanted = false
		if v.shared != nil {
			w.touch(v.shared) // another pod may be the next to have it
		}
	}
	for i := range volumes {
		r := &volumes[i]
		p.order = append(p.order, r.name)
		p.names[r.name] = before[r.name]
		w.wantName(p, r, now)
	}
	w.touchPod(p)
	return p
}

// wantClaims takes the claims of which want has said that they are not read yet. That
// counts for nothing if the pod is another one by now.
func (w *world) wantClaims(pod *v1.Pod, claims []resolved, now time.Time) {
	p := w.pods[pod.UID]
	if p == nil || p.pod != pod || p.releasing {
		return
	}
	for i := range claims {
		if v := p.names[claims[i].name].volume; v != nil {
			v.wanted = false
		}
	}
	for i := range claims {
		w.wantName(p, &claims[i], now)
	}
	w.touchPod(p)
}

// wantName takes what is known of a volume. What could be resolved before and cannot be
// now stays.
func (w *world) wantName(p *podState, r *resolved, now time.Time) {
	n := p.names[r.name]
	switch {
	case r.err == nil && !r.claim:
		n = w.wantVolume(p, r, now)
	case n == nil:
		n = &nameState{}
	}
	p.names[r.name], n.reading = n, time.Time{}
	if r.claim {
		n.reading = now
	}
	if r.err != nil {
		n.err, n.errAt = r.err, now
		n.retry.failed(doNothing, now)
	}
	if v := n.volume; v != nil {
		v.wanted = true
		v.remount = v.remount || !r.claim && v.remounts && v.state == StateMounted
	}
}

func (w *world) wantVolume(p *podState, r *resolved, now time.Time) *nameState {
	v := w.volume(p, r.key(), r.plugin)
	if !v.wanted {
		v.spec, v.inside = r.spec, r.inside
		if v.requestedAt.IsZero() {
			v.requestedAt = now
		}
	} else { // another name of the same
		v.inside = slices.Compact(slices.Sorted(slices.Values(slices.Concat(v.inside, r.inside))))
		if !r.spec.ReadOnly {
			v.spec = r.spec
		}
	}
	_, v.expands = r.plugin.(volume.Expander)
	v.wanted, v.remounts, v.label, v.asks = true, r.remounts, r.label, r.asks
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
func (w *world) volume(p *podState, key volumeKey, plugin volume.Plugin) *volumeState {
	v := p.volumes[key]
	if v == nil {
		v = &volumeState{pod: p, key: key, plugin: plugin}
		p.volumes[key] = v
		w.setClaim(v)
	}
	return v
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
func (w *world) objectChanged(o volume.Object) {
	of := func(o volume.Object) {
		for v := range w.objects[o] {
			v.remount = v.state == StateMounted || v.op != nil
			v.retry = retry{}
			w.touch(v)
			if v.shared != nil {
				v.shared.retry = retry{} // it may have been missed for staging
				w.touch(v.shared)
			}
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
	all := set[volume.Object]{}
	for _, x := range []volume.Object{o, {Kind: o.Kind, Namespace: o.Namespace}, {Kind: o.Kind}} {
		all.add(x)
	}
	for x := range all {
		of(x)
	}
}

// inUse are the names of the volumes that have to stay attached.
func (w *world) inUse() (names []string) {
	for id, s := range w.shared {
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

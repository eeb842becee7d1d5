package manager

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

// desiredState indexes the volumes that pods use.
type desiredState struct {
	// objects are the volumes with the content of an object.
	objects map[volume.Object]set[*volumeState]
	// claimed are the volumes of one plugin and name: those of one claim.
	claimed map[claimKey]set[*volumeState]
	// complete is true if all sources of pods were read.
	complete bool
}

// want says what a pod needs. Claims that are not read yet follow.
func (rc *reconciler) want(pod *v1.Pod, volumes []resolved, now time.Time) *podState {
	p := rc.pod(pod.UID)
	p.pod, p.releasing, p.scanned, p.awaited = pod, false, false, false
	if p.op != nil {
		p.op.outdated = true
	}
	before := p.names
	p.names, p.order = map[string]*nameState{}, nil
	for _, v := range p.volumes {
		v.wanted = false
		if v.shared != nil {
			rc.touch(v.shared) // another pod may be the next to have it
		}
	}
	for i := range volumes {
		r := &volumes[i]
		p.order = append(p.order, r.name)
		p.names[r.name] = before[r.name]
		rc.wantName(p, r, now)
	}
	rc.touchPod(p)
	return p
}

// wantClaims takes the claims of which want has said that they are not read yet. That
// counts for nothing if the pod is another one by now.
func (rc *reconciler) wantClaims(pod *v1.Pod, claims []resolved, now time.Time) *podState {
	p := rc.pods[pod.UID]
	if p == nil || p.pod != pod || p.releasing {
		return nil
	}
	for i := range claims {
		if v := p.names[claims[i].name].volume; v != nil {
			v.wanted = false
		}
	}
	for i := range claims {
		rc.wantName(p, &claims[i], now)
	}
	rc.touchPod(p)
	return p
}

// wantName takes what is known of a volume. What could be resolved before and cannot be
// now stays.
func (rc *reconciler) wantName(p *podState, r *resolved, now time.Time) {
	n := p.names[r.name]
	switch {
	case r.err == nil && !r.claim:
		n = rc.wantVolume(p, r, now)
	case n == nil:
		n = &nameState{}
	}
	p.names[r.name], n.reading = n, time.Time{}
	if r.claim {
		n.reading = now
	}
	known := n.err != nil
	if r.err != nil {
		n.err, n.errAt = r.err, now
		n.retry.failed(doNothing, now)
	}
	if v := n.volume; v != nil {
		v.wanted = true
		v.remount = v.remount || !r.claim && v.remounts && v.state == StateMounted
		if r.err != nil && !known && v.ready() {
			p.warnings = append(p.warnings, r.err)
		}
	}
}

func (rc *reconciler) wantVolume(p *podState, r *resolved, now time.Time) *nameState {
	v := rc.volume(p, r.key(), r.plugin)
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
	v.wanted, v.remounts, v.label, v.needsLabel = true, r.remounts, r.label, r.needsLabel
	rc.setClaim(v)
	rc.setObjects(v, r.objects)
	rc.setShared(v, r.shared, false)
	if v.shared != nil {
		v.shared.spec = r.spec
		rc.touch(v.shared)
	}
	return &nameState{volume: v, readOnly: r.spec.ReadOnly}
}

// release says that a pod has to have nothing. It returns the operations that have to
// be cancelled.
func (rc *reconciler) release(uid types.UID) (p *podState, cancelled []*operation) {
	p = rc.pod(uid)
	if p.releasing {
		return p, nil
	}
	p.releasing, p.scanned, p.awaited = true, false, false
	p.names, p.order = map[string]*nameState{}, nil
	for _, v := range p.volumes {
		v.wanted = false
		rc.setObjects(v, nil)
		rc.touchShared(v.shared)
		if v.op != nil && (v.op.kind == doMount || v.op.kind == doExpand) {
			cancelled = append(cancelled, v.op)
		}
	}
	rc.touchPod(p)
	return p, cancelled
}

// objectChanged has volumes mounted again that depend on an object, at once.
func (rc *reconciler) objectChanged(o volume.Object) {
	of := func(o volume.Object) {
		for v := range rc.objects[o] {
			v.remount = v.state == StateMounted || v.op != nil
			v.retry = retry{}
			rc.touch(v)
			if v.shared != nil {
				v.shared.retry = retry{} // it may have been missed for staging
				rc.touch(v.shared)
			}
		}
	}
	if o.Name == "" {
		for other := range rc.objects {
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

func (d *desiredState) setObjects(v *volumeState, objects []volume.Object) {
	for _, o := range v.objects {
		remove(d.objects, o, v)
	}
	v.objects = objects
	for _, o := range objects {
		if d.objects[o] == nil {
			d.objects[o] = set[*volumeState]{}
		}
		d.objects[o].add(v)
	}
}

// setClaim lists a volume with those that may be of the same claim: those that are
// known not to be of one are not.
func (rc *reconciler) setClaim(v *volumeState) {
	peers := rc.claimed[v.claim()]
	if v.spec != nil && v.spec.Persistent == nil {
		remove(rc.claimed, v.claim(), v)
		rc.touchPeers(v)
		return
	}
	if peers == nil {
		peers = set[*volumeState]{}
		rc.claimed[v.claim()] = peers
	}
	peers.add(v)
}

// claimHolder says what keeps a claim that only one pod may have, if something does.
func (rc *reconciler) claimHolder(v *volumeState) (step, bool) {
	if !ofOnePod(v.spec) {
		return step{}, false
	}
	for other := range rc.claimed[v.claim()] {
		if other.pod != v.pod && (other.state != StateNotMounted || other.op != nil) {
			return step{why: fmt.Sprintf("pod %s, which has the volume: it is %s", other.pod.name(), v1.ReadWriteOncePod)}, true
		}
	}
	if len(rc.unread) > 0 && v.state == StateNotMounted {
		return step{why: fmt.Sprintf("the disk to be read: the volume is %s", v1.ReadWriteOncePod), soon: rc.reading()}, true
	}
	return step{}, false
}

func remove[K, T comparable](m map[K]set[T], key K, x T) {
	delete(m[key], x)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}

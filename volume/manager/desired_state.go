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
	objects map[volume.Object]set[*volumeState]
	// claimed has the volumes of each claim, by plugin and name.
	claimed map[claimKey]set[*volumeState]
	// complete is true if all sources of pods were read.
	complete bool
}

// setDesired sets the volumes that a pod needs. setDesiredClaims follows for claims that were not read yet.
func (rc *reconciler) setDesired(pod *v1.Pod, volumes []resolved, now time.Time) *podState {
	p := rc.pod(pod.UID)
	p.pod, p.releasing, p.scanned, p.notifyReady = pod, false, false, false
	if p.op != nil {
		p.op.outdated = true
	}
	before := p.names
	p.names, p.order = map[string]*nameState{}, nil
	for _, v := range p.volumes {
		v.wanted = false
		if v.shared != nil {
			rc.touch(v.shared) // another pod may now be the first user
		}
	}
	for i := range volumes {
		r := &volumes[i]
		p.order = append(p.order, r.name)
		p.names[r.name] = before[r.name]
		rc.setDesiredName(p, r, now)
	}
	rc.touchPod(p)
	return p
}

// setDesiredClaims sets the claims that setDesired left open. It has no effect if the pod was prepared
// again or released in the meantime.
func (rc *reconciler) setDesiredClaims(pod *v1.Pod, claims []resolved, now time.Time) *podState {
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
		rc.setDesiredName(p, &claims[i], now)
	}
	rc.touchPod(p)
	return p
}

// setDesiredName sets one volume. If it was resolved before and now fails to resolve, the earlier
// result stays.
func (rc *reconciler) setDesiredName(p *podState, r *resolved, now time.Time) {
	n := p.names[r.name]
	switch {
	case r.err == nil && !r.claim:
		n = rc.setDesiredVolume(p, r, now)
	case n == nil:
		n = &nameState{}
	}
	p.names[r.name], n.reading = n, time.Time{}
	if r.claim {
		n.reading = now
	}
	failedBefore := n.err != nil
	if r.err != nil {
		n.err, n.errAt = r.err, now
		n.retry.failed(doNothing, now)
	}
	if v := n.volume; v != nil {
		v.wanted = true
		v.remount = v.remount || !r.claim && v.remounts && v.state == StateMounted
		if r.err != nil && !failedBefore && v.ready() {
			p.warnings = append(p.warnings, r.err)
		}
	}
}

func (rc *reconciler) setDesiredVolume(p *podState, r *resolved, now time.Time) *nameState {
	v := rc.volume(p, r.key(), r.plugin)
	if !v.wanted {
		v.spec, v.inside = r.spec, r.inside
		if v.requestedAt.IsZero() {
			v.requestedAt = now
		}
	} else { // a second name of the same volume
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

// release sets a pod to need no volumes. It returns the operations that the caller must cancel.
func (rc *reconciler) release(uid types.UID) (p *podState, cancelled []*operation) {
	p = rc.pod(uid)
	if p.releasing {
		return p, nil
	}
	p.releasing, p.scanned, p.notifyReady = true, false, false
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

// objectChanged schedules a mount of all volumes with content of an object, without back-off.
func (rc *reconciler) objectChanged(o volume.Object) {
	of := func(o volume.Object) {
		for v := range rc.objects[o] {
			v.remount = v.state == StateMounted || v.op != nil
			v.retry = retry{}
			rc.touch(v)
			if v.shared != nil {
				v.shared.retry = retry{} // a stage may have failed for lack of the object
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

// setClaim adds a volume to the index by claim. A volume that certainly has no claim is
// removed.
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

// claimHolder returns the reason why a volume for one pod (ReadWriteOncePod) must wait. It
// returns false if v may proceed.
func (rc *reconciler) claimHolder(v *volumeState) (step, bool) {
	if !ofOnePod(v.spec) {
		return step{}, false
	}
	for other := range rc.claimed[v.claim()] {
		if other.pod != v.pod && (other.state != StateNotMounted || other.op != nil) {
			return step{why: fmt.Sprintf("pod %s to release the volume (%s)", other.pod.name(), v1.ReadWriteOncePod)}, true
		}
	}
	if len(rc.unread) > 0 && v.state == StateNotMounted {
		return step{why: fmt.Sprintf("the scan of the disk for other users (%s)", v1.ReadWriteOncePod), continues: rc.reading()}, true
	}
	return step{}, false
}

func remove[K, T comparable](m map[K]set[T], key K, x T) {
	delete(m[key], x)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}

package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/foldername"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

// Prepare mounts the volumes that containers of a pod use, and brings those up to date
// that are mounted. It implements stages.Stage.
//
// It returns as soon as all are mounted, or nothing more happens by itself: what has
// failed is tried again only after a pause, or a volume is kept by another pod. Then
// the error is a NotReadyError; the manager goes on meanwhile, and Config.OnReady is
// told when it was successful. A call that is cancelled ends no mount.
//
// A volume that is mounted already never fails a pod: if it cannot be brought up to
// date, or its claim cannot be read any more, it stays as it is, and Explain and an
// event tell of it. It is waited for up to a second.
func (m *Manager) Prepare(ctx context.Context, pod *v1.Pod) error {
	if err := podfacts.CheckIdentity(pod); err != nil {
		return fmt.Errorf("volume: prepare: %w", err)
	}
	if err := foldername.Check("volume: the pod's UID", string(pod.UID)); err != nil {
		return err
	}
	if err := m.awaitStart(ctx); err != nil {
		return err
	}
	volumes := m.resolve(ctx, pod)
	changed, end := m.watch(pod.UID)
	defer end()
	m.want(ctx, pod, volumes)
	refreshes := time.NewTimer(patience)
	defer refreshes.Stop()
	patient := true
	for {
		over, err := m.prepared(pod.UID, patient, nil)
		if over {
			return err
		}
		select {
		case <-changed:
		case <-refreshes.C:
			patient = false
		case <-m.ended:
			return ErrEnded
		case <-ctx.Done():
			_, err := m.prepared(pod.UID, false, run.EndOf(ctx))
			return err
		}
	}
}

// want takes what a pod needs. What has no claim begins at once, whatever becomes of
// the claims. Of a pod that has all its volumes the claims are not waited for long.
func (m *Manager) want(ctx context.Context, pod *v1.Pod, volumes []resolved) {
	limit := m.cfg.OperationTimeout
	m.change(pod, func(w *world, now time.Time) {
		if w.want(pod, volumes, now).ready() {
			limit = min(limit, patience)
		}
	})
	if slices.ContainsFunc(volumes, func(r resolved) bool { return r.claim }) {
		bounded, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		read := m.readClaims(bounded, pod, volumes)
		take := func(w *world, now time.Time) { w.wantClaims(pod, read, now) }
		if ctx.Err() != nil {
			m.changed(pod.UID, take) // nothing is wrong with the claims
			return
		}
		m.change(pod, take)
	}
}

// change changes what is desired of a pod, and tells of volumes that are mounted and can
// be resolved no more.
func (m *Manager) change(pod *v1.Pod, f func(*world, time.Time)) {
	for _, err := range m.changed(pod.UID, f) {
		m.warn(pod, err)
	}
	m.wake.Wake()
}

func (m *Manager) changed(uid types.UID, f func(*world, time.Time)) (warnings []error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := map[string]bool{}
	if p := m.world.pods[uid]; p != nil {
		for name, n := range p.names {
			before[name] = n.err != nil
		}
	}
	f(m.world, time.Now())
	p := m.world.pods[uid]
	if p == nil {
		return nil
	}
	for name, n := range p.names {
		if n.err != nil && n.volume != nil && n.volume.ready() && !before[name] {
			warnings = append(warnings, n.err)
		}
	}
	return warnings
}

// prepared tells whether Prepare is over. With an error it always is.
func (m *Manager) prepared(uid types.UID, patient bool, cause error) (over bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, now := m.world.pods[uid], time.Now()
	if p == nil || p.releasing {
		return true, fmt.Errorf("volume: pod %s: %w", uid, ErrReleased)
	}
	over = cause != nil || m.world.prepared(p, patient, now)
	if !over || p.ready() {
		return over, nil
	}
	p.awaited = true
	return true, m.notReady(p, "mount", cause)
}

// notReady says why a pod is not as it has to be.
func (m *Manager) notReady(p *podState, action string, cause error) error {
	e := &NotReadyError{Pod: p.name(), UID: p.uid, Action: action, Err: cause}
	for _, s := range m.world.explain(p, time.Now()) {
		if !s.Ready {
			e.Volumes = append(e.Volumes, s)
		}
	}
	return e
}

// Release unmounts all that the pod has, whether this agent has mounted it or it was
// found on disk, and removes the empty folders. It implements stages.Stage. Mounts that
// run are cancelled.
//
// It returns as soon as nothing is left, or nothing more happens by itself; then the
// error is a NotReadyError, and the manager goes on meanwhile. A call that is cancelled
// ends no unmount.
func (m *Manager) Release(ctx context.Context, uid types.UID) error {
	if err := foldername.Check("volume: the pod's UID", string(uid)); err != nil {
		return err
	}
	if err := m.awaitStart(ctx); err != nil {
		return err
	}
	changed, end := m.watch(uid)
	defer end()
	m.release(uid)
	m.wake.Wake()
	for {
		over, err := m.released(uid, nil)
		if over {
			return err
		}
		select {
		case <-changed:
		case <-m.ended:
			return ErrEnded
		case <-ctx.Done():
			_, err := m.released(uid, run.EndOf(ctx))
			return err
		}
	}
}

func (m *Manager) release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, cancelled := m.world.release(uid)
	for _, op := range cancelled {
		op.cancel()
		m.world.cancelled(op, time.Now())
	}
}

// released tells whether Release is over. With a cause it always is.
func (m *Manager) released(uid types.UID, cause error) (over bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, now := m.world.pods[uid], time.Now()
	switch {
	case p == nil:
		return true, nil
	case !p.releasing:
		return true, fmt.Errorf("volume: pod %s: %w", uid, ErrPrepared)
	}
	moving := m.world.moves(p, now)
	for _, v := range p.volumes {
		moving = moving || m.world.moves(v, now)
	}
	if moving && cause == nil {
		return false, nil
	}
	return true, m.notReady(p, "unmount", cause)
}

// Volume returns a mounted volume of a pod by its name in the pod's spec. It implements
// request.Volumes. A volume that is not mounted is an error that says what it waits for.
func (m *Manager) Volume(_ context.Context, pod *v1.Pod, name string) (volume.Mounted, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.world.pods[pod.UID]
	if p == nil || p.names[name] == nil || p.releasing {
		return volume.Mounted{}, fmt.Errorf("volume %q of pod %s is not prepared: %w", name, pod.UID, volume.ErrNotFound)
	}
	n := p.names[name]
	if n.volume == nil || !n.volume.ready() {
		for _, s := range m.world.explain(p, time.Now()) {
			if s.Name == name {
				return volume.Mounted{}, fmt.Errorf("volume of pod %s is not mounted: %v", p.name(), s)
			}
		}
	}
	out := n.volume.mounted
	out.ReadOnly = out.ReadOnly || n.readOnly
	return out, nil
}

// Explain says how the volumes of a pod stand: first those that it uses, in the order
// of its spec, then those that were found on disk. It is nil for a pod of which there
// is nothing.
func (m *Manager) Explain(uid types.UID) []VolumeState {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.world.pods[uid]
	if p == nil {
		return nil
	}
	return m.world.explain(p, time.Now())
}

// Objects are those that volumes are made of, of all pods, in no order: whoever watches
// objects has to go on with these.
func (m *Manager) Objects() []volume.Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.world.objects))
}

// InUse are the names of the volumes that have to stay attached to the node, sorted, as
// nodes report them, those included of which it is not known whether they are attached at
// all. It is not known before the disk was read.
func (m *Manager) InUse() (names []string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.started:
		return m.world.inUse(), len(m.world.unread) == 0 && m.world.listed()
	default:
		return nil, false
	}
}

// Count is how many volumes of pods there are of a plugin in a state.
type Count struct {
	Plugin string
	State  State
	// Wanted tells that the pods use it, and do not end.
	Wanted bool
}

// Counts counts the volumes of pods. It looks at all of them.
func (m *Manager) Counts() map[Count]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[Count]int{}
	for _, p := range m.world.pods {
		for key, v := range p.volumes {
			out[Count{key.plugin, v.state, v.wanted}]++
		}
	}
	return out
}

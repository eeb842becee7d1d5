package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
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
	if err := fs.CheckName("volume: the pod's UID", string(pod.UID)); err != nil {
		return err
	}
	if err := m.awaitStart(ctx); err != nil {
		return err
	}
	volumes := m.resolve(ctx, pod)
	changed, end := m.watch(pod.UID)
	defer end()
	m.want(ctx, pod, volumes)
	refreshes := time.NewTimer(operationGrace)
	defer refreshes.Stop()
	return m.await(ctx, changed, refreshes.C, func(refreshed bool, cause error) (bool, error) {
		return m.prepared(pod.UID, refreshed, cause)
	})
}

// await calls over after each change until it returns true. The first argument of over is
// true until timeout; the second is the cause of the end of ctx.
func (m *Manager) await(ctx context.Context, changed run.Signal, timeout <-chan time.Time, over func(early bool, cause error) (bool, error)) error {
	for early := true; ; {
		if is, err := over(early, nil); is {
			return err
		}
		select {
		case <-changed:
		case <-timeout:
			early = false
		case <-m.ended:
			return ErrEnded
		case <-ctx.Done():
			_, err := over(false, run.EndOf(ctx))
			return err
		}
	}
}

// want takes what a pod needs. What has no claim begins at once, whatever becomes of
// the claims. Of a pod that has all its volumes the claims are not waited for long.
func (m *Manager) want(ctx context.Context, pod *v1.Pod, volumes []resolved) {
	limit := m.cfg.OperationTimeout
	m.change(ctx, pod, func(rc *reconciler, now time.Time) *podState {
		p := rc.want(pod, volumes, now)
		if p.ready() {
			limit = min(limit, operationGrace)
		}
		return p
	})
	if slices.ContainsFunc(volumes, func(r resolved) bool { return r.claim }) {
		bounded, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		read := m.readClaims(bounded, pod, volumes)
		m.change(ctx, pod, func(rc *reconciler, now time.Time) *podState { return rc.wantClaims(pod, read, now) })
	}
}

// change changes the desired state of a pod, and records an event for each mounted volume
// that can no longer be resolved, unless ctx is done: then nothing is wrong with its claim.
func (m *Manager) change(ctx context.Context, pod *v1.Pod, f func(*reconciler, time.Time) *podState) {
	m.mu.Lock()
	var warnings []error
	if p := f(m.reconciler, time.Now()); p != nil {
		warnings, p.warnings = p.warnings, nil
	}
	m.mu.Unlock()
	for _, err := range warnings {
		if ctx.Err() == nil {
			m.warn(pod, err)
		}
	}
	m.wake.Wake()
}

// prepared tells whether Prepare is over. With an error it always is.
func (m *Manager) prepared(uid types.UID, refreshed bool, cause error) (over bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, now := m.reconciler.pods[uid], time.Now()
	if p == nil || p.releasing {
		return true, fmt.Errorf("volume: pod %s: %w", uid, ErrReleased)
	}
	over = cause != nil || m.reconciler.prepared(p, refreshed, now)
	if !over || p.ready() {
		return over, nil
	}
	p.awaited = true
	return true, m.notReady(p, "mount", cause)
}

// Release unmounts all that the pod has, whether this agent has mounted it or it was
// found on disk, and removes the empty folders. It implements stages.Stage. Mounts that
// run are cancelled.
//
// It returns as soon as nothing is left, or nothing more happens by itself; then the
// error is a NotReadyError, and the manager goes on meanwhile. A call that is cancelled
// ends no unmount.
func (m *Manager) Release(ctx context.Context, uid types.UID) error {
	if err := fs.CheckName("volume: the pod's UID", string(uid)); err != nil {
		return err
	}
	if err := m.awaitStart(ctx); err != nil {
		return err
	}
	changed, end := m.watch(uid)
	defer end()
	m.release(uid)
	return m.await(ctx, changed, nil, func(_ bool, cause error) (bool, error) { return m.released(uid, cause) })
}

func (m *Manager) release(uid types.UID) {
	defer m.wake.Wake()
	m.mu.Lock()
	defer m.mu.Unlock()
	_, cancelled := m.reconciler.release(uid)
	for _, op := range cancelled {
		op.cancel()
		m.reconciler.markCancelled(op, time.Now())
	}
}

// released tells whether Release is over. With a cause it always is.
func (m *Manager) released(uid types.UID, cause error) (over bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, now := m.reconciler.pods[uid], time.Now()
	switch {
	case p == nil:
		return true, nil
	case !p.releasing:
		return true, fmt.Errorf("volume: pod %s: %w", uid, ErrPrepared)
	}
	moving := m.reconciler.moves(p, now)
	for _, v := range p.volumes {
		moving = moving || m.reconciler.moves(v, now)
	}
	if moving && cause == nil {
		return false, nil
	}
	return true, m.notReady(p, "unmount", cause)
}

// notReady says why a pod is not as it has to be.
func (m *Manager) notReady(p *podState, action string, cause error) error {
	e := &NotReadyError{Pod: p.name(), UID: p.uid, Action: action, Err: cause}
	for _, s := range m.reconciler.explain(p, time.Now()) {
		if !s.Ready {
			e.Volumes = append(e.Volumes, s)
		}
	}
	return e
}

// Leftovers names the pods that have volumes, or anything in their folders of volumes:
// those of which it is known are not looked at. It implements stages.Stage.
func (m *Manager) Leftovers(ctx context.Context) (uids []types.UID, err error) {
	pods, err := m.podsOnDisk()
	known := m.withVolumes()
	var errs []error
	for _, uid := range pods {
		if ctx.Err() != nil {
			return uids, run.EndOf(ctx)
		}
		if known.has(uid) {
			uids = append(uids, uid)
			continue
		}
		there, err := m.hasAny(uid)
		errs = append(errs, err)
		if there {
			uids = append(uids, uid)
		}
	}
	return uids, run.Join(append(errs, err)...)
}

// withVolumes are the pods with volumes that were not released.
func (m *Manager) withVolumes() set[types.UID] {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := set[types.UID]{}
	for uid, p := range m.reconciler.pods {
		if p.pod != nil && !p.releasing && len(p.volumes) > 0 {
			known.add(uid)
		}
	}
	return known
}

func (m *Manager) hasAny(uid types.UID) (bool, error) {
	l := m.cfg.Layout
	for _, dir := range []string{l.Volumes(uid), l.Devices(uid), l.SubPaths(uid)} {
		entries, err := fs.List(dir)
		if len(entries) > 0 {
			return true, nil
		}
		if err != nil {
			// There is something, or nobody knows.
			return true, fmt.Errorf("pod %s: %w", uid, err)
		}
	}
	return false, nil
}

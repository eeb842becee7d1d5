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

// Prepare mounts the volumes that the pod's containers use, and refreshes mounted ones. It
// implements stages.Stage.
//
// It returns nil when all volumes are mounted. It returns a NotReadyError when ctx is done or no
// operation makes progress: a failed operation is in back-off, or another pod has the volume.
// Mounts and retries then continue, and the manager calls Config.OnReady after success. A Release
// of the pod ends Prepare with ErrReleased.
//
// A mounted volume never fails a pod. If its refresh fails or its claim is unreadable, the
// volume stays as it is, and Explain and an event report the error. Prepare waits up to a
// second for refreshes.
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
	m.setDesired(ctx, pod, volumes)
	refreshes := time.NewTimer(operationGrace)
	defer refreshes.Stop()
	return m.await(ctx, changed, refreshes.C, func(refreshed bool, cause error) (bool, error) {
		return m.prepared(pod.UID, refreshed, cause)
	})
}

// await calls done after each change until it returns true. The first argument of done is true
// until timeout; the second is the cause of the end of ctx.
func (m *Manager) await(ctx context.Context, changed run.Signal, timeout <-chan time.Time, done func(early bool, cause error) (bool, error)) error {
	for early := true; ; {
		if is, err := done(early, nil); is {
			return err
		}
		select {
		case <-changed:
		case <-timeout:
			early = false
		case <-m.ended:
			return ErrEnded
		case <-ctx.Done():
			_, err := done(false, run.EndOf(ctx))
			return err
		}
	}
}

// setDesired sets the volumes that a pod needs. Volumes without claims start at once. If all volumes
// of the pod are mounted, the read of claims is bounded by a second.
func (m *Manager) setDesired(ctx context.Context, pod *v1.Pod, volumes []resolved) {
	limit := m.cfg.OperationTimeout
	m.change(ctx, pod, func(rc *reconciler, now time.Time) *podState {
		p := rc.setDesired(pod, volumes, now)
		if p.ready() {
			limit = min(limit, operationGrace)
		}
		return p
	})
	if slices.ContainsFunc(volumes, func(r resolved) bool { return r.claim }) {
		bounded, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		read := m.readClaims(bounded, pod, volumes)
		m.change(ctx, pod, func(rc *reconciler, now time.Time) *podState { return rc.setDesiredClaims(pod, read, now) })
	}
}

// change changes the desired state of a pod. It records an event for each mounted volume that
// can no longer be resolved, unless ctx is done, because the claim is then not at fault.
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

// prepared reports whether Prepare is over. It always is with a cause.
func (m *Manager) prepared(uid types.UID, refreshed bool, cause error) (done bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, now := m.reconciler.pods[uid], time.Now()
	if p == nil || p.releasing {
		return true, fmt.Errorf("volume: pod %s: %w", uid, ErrReleased)
	}
	done = cause != nil || m.reconciler.prepared(p, refreshed, now)
	if !done || p.ready() {
		return done, nil
	}
	p.notifyReady = true
	return true, m.notReady(p, "mount", cause)
}

// Release unmounts all volumes of the pod, including those on the disk of earlier agents, and
// removes the empty folders. It implements stages.Stage. It cancels running mounts.
//
// It returns nil when all are removed. It returns a NotReadyError when ctx is done or no
// operation makes progress; unmounts and retries then continue. A Prepare of the pod ends Release
// with ErrPrepared.
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

// released reports whether Release is over. It always is with a cause.
func (m *Manager) released(uid types.UID, cause error) (done bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, now := m.reconciler.pods[uid], time.Now()
	switch {
	case p == nil:
		return true, nil
	case !p.releasing:
		return true, fmt.Errorf("volume: pod %s: %w", uid, ErrPrepared)
	}
	progress := m.reconciler.progresses(p, now)
	for _, v := range p.volumes {
		progress = progress || m.reconciler.progresses(v, now)
	}
	if progress && cause == nil {
		return false, nil
	}
	return true, m.notReady(p, "unmount", cause)
}

func (m *Manager) notReady(p *podState, action string, cause error) error {
	e := &NotReadyError{Pod: p.name(), UID: p.uid, Action: action, Err: cause}
	for _, s := range m.reconciler.explain(p, time.Now()) {
		if !s.Ready {
			e.Volumes = append(e.Volumes, s)
		}
	}
	return e
}

// Leftovers returns the pods with volumes, or with files in their folders for volumes. It does
// not access the folders of pods whose volumes are in memory. It implements stages.Stage.
func (m *Manager) Leftovers(ctx context.Context) (uids []types.UID, err error) {
	pods, err := m.podsOnDisk()
	mounted := m.withVolumes()
	var errs []error
	for _, uid := range pods {
		if ctx.Err() != nil {
			return uids, run.EndOf(ctx)
		}
		if mounted.has(uid) {
			uids = append(uids, uid)
			continue
		}
		hasFiles, err := m.hasFiles(uid)
		errs = append(errs, err)
		if hasFiles {
			uids = append(uids, uid)
		}
	}
	return uids, run.Join(append(errs, err)...)
}

// withVolumes returns the pods with volumes that were not released.
func (m *Manager) withVolumes() set[types.UID] {
	m.mu.Lock()
	defer m.mu.Unlock()
	uids := set[types.UID]{}
	for uid, p := range m.reconciler.pods {
		if p.pod != nil && !p.releasing && len(p.volumes) > 0 {
			uids.add(uid)
		}
	}
	return uids
}

func (m *Manager) hasFiles(uid types.UID) (bool, error) {
	l := m.cfg.Layout
	for _, dir := range []string{l.Volumes(uid), l.Devices(uid), l.SubPaths(uid)} {
		entries, err := fs.List(dir)
		if len(entries) > 0 {
			return true, nil
		}
		if err != nil {
			// The folder has content, or its content is unknown.
			return true, fmt.Errorf("pod %s: %w", uid, err)
		}
	}
	return false, nil
}

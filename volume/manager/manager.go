package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

// Manager mounts and unmounts the volumes of pods. It implements stages.Stage and
// request.Volumes. Create it with New. It is safe for concurrent use.
type Manager struct {
	cfg     Config
	plugins map[string]volume.Plugin
	called  atomic.Bool // Run was called
	wake    run.Signal
	ops     run.Group
	claims  run.Calls     // of Config.Claims
	started chan struct{} // closed when the pods on the disk are listed
	ended   chan struct{} // closed when Run ends

	mu         sync.Mutex
	reconciler *reconciler
	waiters    map[types.UID]map[run.Signal]bool
	startup    error // error of listing the pods on the disk, until started is closed
}

// New checks the configuration and returns a Manager. It does not access the disk.
func New(cfg Config) (*Manager, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, plugins: map[string]volume.Plugin{}, wake: run.NewSignal(),
		started: make(chan struct{}), ended: make(chan struct{}),
		reconciler: newReconciler(cfg.Plugins, cfg.OperationTimeout), waiters: map[types.UID]map[run.Signal]bool{},
	}
	for _, p := range cfg.Plugins {
		m.plugins[p.Name()] = p
	}
	return m, nil
}

// Run performs operations until ctx is done. It then cancels the running operations and waits
// for them. Operations that do not return within ShutdownTimeout are listed in the error, which
// wraps ErrShutdownTimeout. The end of Run unmounts no volumes. The second call of Run returns
// ErrAlreadyRun.
func (m *Manager) Run(ctx context.Context) error {
	if m.called.Swap(true) {
		return ErrAlreadyRun
	}
	if m.readPods(ctx) {
		close(m.started)
		m.loop(ctx)
	}
	close(m.ended)
	return run.StillRunning("volume", m.cfg.ShutdownTimeout, m.ops.Wait(m.cfg.ShutdownTimeout))
}

func (m *Manager) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		begun, ready, pause := m.step(ctx)
		for _, op := range begun {
			m.ops.Go(op.name, func() { m.operate(op) })
		}
		for _, uid := range ready {
			m.cfg.OnReady(uid)
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-timer.C:
		}
	}
}

// step returns the operations to start, the pods that became ready after their Prepare
// returned, and the delay until the next step without a change.
func (m *Manager) step(ctx context.Context) (begun []*operation, ready []types.UID, pause time.Duration) {
	complete := m.cfg.Complete()
	m.mu.Lock()
	defer m.mu.Unlock()
	if rc := m.reconciler; complete != rc.complete {
		rc.complete = complete
		rc.touchAllShared()
	}
	now := time.Now()
	begun = m.reconciler.next(now)
	for _, op := range begun {
		op.ctx, op.cancel = context.WithTimeout(ctx, m.cfg.OperationTimeout)
	}
	for uid := range m.reconciler.changed {
		for s := range m.waiters[uid] {
			s.Wake()
		}
		if p := m.reconciler.pods[uid]; p != nil && p.notifyReady && p.ready() {
			p.notifyReady = false
			ready = append(ready, uid)
		}
	}
	clear(m.reconciler.changed)
	pause = time.Hour
	if at, ok := m.reconciler.nextDue(); ok {
		pause = min(pause, at.Sub(now))
	}
	return begun, ready, pause
}

func (m *Manager) operate(op *operation) {
	defer op.cancel()
	out := outcome{err: errGoexit}
	defer func() { m.finish(op, out) }()
	if err := run.Guard(op.name, func() error { out = m.perform(op.ctx, op); return nil }); err != nil {
		out = outcome{err: volume.Uncertain(err)}
	}
	out.ended = op.ctx.Err() != nil
}

func (m *Manager) finish(op *operation, out outcome) {
	now := time.Now()
	m.mu.Lock()
	before := op.on.base().err
	firstFailure := before == nil || errors.Is(before, errNotExpanded)
	unread := m.reconciler.unread.has(op.uid)
	m.reconciler.end(op, out, now)
	isRead := unread && !m.reconciler.unread.has(op.uid)
	m.mu.Unlock()
	m.wake.Wake()
	if op.plugin != nil {
		m.cfg.Metrics.OnOperation(Operation{Name: op.kind.metric(op.block), Plugin: op.plugin.Name(), Took: now.Sub(op.began), Forced: op.forced, Err: out.err})
	}
	if isRead {
		for _, f := range out.found {
			m.cfg.Metrics.OnFound(f.key.plugin, f.plugin != nil && !f.unknown)
		}
	}
	switch {
	case out.err == nil && !op.first.IsZero():
		m.cfg.Metrics.OnReady(op.plugin.Name(), now.Sub(op.first))
	case out.err != nil:
		m.cfg.Logger.Warn(op.name+" has failed", "err", out.err, "stack", run.StackOf(out.err))
	}
	m.recordOutcome(op, &out, firstFailure)
}

// Changed reports the change of an API object: volumes with its content are refreshed, and
// failed mounts of such volumes are retried at once. An Object without a name stands for all
// objects of its kind and namespace. Changed never blocks.
func (m *Manager) Changed(o volume.Object) {
	m.mu.Lock()
	m.reconciler.objectChanged(o)
	m.mu.Unlock()
	m.wake.Wake()
}

// Wake makes the manager call Config.Complete and Config.Attachments again. It never blocks.
func (m *Manager) Wake() {
	m.mu.Lock()
	m.reconciler.retryVerification()
	m.mu.Unlock()
	m.wake.Wake()
}

// Retry ends the back-off of a plugin's volumes, for example after the registration of a
// driver. It never blocks.
func (m *Manager) Retry(plugin string) {
	m.mu.Lock()
	m.reconciler.retryPlugin(plugin)
	m.mu.Unlock()
	m.wake.Wake()
}

// watch returns a signal that fires after each change of a pod, until end is called.
func (m *Manager) watch(uid types.UID) (s run.Signal, end func()) {
	s = run.NewSignal()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiters[uid] == nil {
		m.waiters[uid] = map[run.Signal]bool{}
	}
	m.waiters[uid][s] = true
	return s, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.waiters[uid], s)
		if len(m.waiters[uid]) == 0 {
			delete(m.waiters, uid)
		}
	}
}

// awaitStart blocks until Run has listed the pods on the disk.
func (m *Manager) awaitStart(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("volume: %w", run.EndOf(ctx))
	}
	select {
	case <-m.started:
		return nil
	case <-m.ended:
		return ErrEnded
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.startup != nil {
		return fmt.Errorf("volume: waiting for the folders of pods to be read: %w: %w", m.startup, run.EndOf(ctx))
	}
	return fmt.Errorf("volume: waiting for Run: %w", run.EndOf(ctx))
}

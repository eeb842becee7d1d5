package probe

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
)

// Manager executes the probes of all pods. Use New. All methods are safe for concurrent use. Only
// Run blocks.
type Manager struct {
	cfg         Config
	log         *slog.Logger
	wake        run.Signal // a worker is due before Run's timer
	changeNotes run.Signal // changed is not empty
	pools       map[Handler]*pool

	// reporting orders the callbacks of Metrics. It is locked before mu.
	reporting sync.Mutex

	mu   sync.Mutex
	pods map[types.UID]*pod
	due  *run.Heap[*worker] // idle workers
	// timer is the time that Run's timer is set to, zero if it is stopped.
	timer time.Time
	// pause is the minimum sleep of Run after a pass unless it is woken: 1 % of the shortest
	// period so far, in [minPause, maxPause]. On a busy node one pass then serves several
	// workers, because a wake-up costs more than a probe. A probe is never late by more than
	// that, and never early.
	pause time.Duration
	// rested is the end of the pause after the last pass.
	rested time.Time
	// inflight are the executions in progress, including those of removed workers.
	inflight map[key]*execution
	// changed lists the workers whose stored result OnChange has not received yet.
	changed []*worker
	started bool
}

type pod struct {
	uid     types.UID
	leaving bool
	workers []*worker
	// restored are the results from Restore for probes without a worker.
	restored []Stored
}

type key struct {
	uid       types.UID
	container string
	typ       Type
}

// New returns a Manager. It executes no probes before Run is called.
func New(cfg Config) (*Manager, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, log: cfg.Logger, wake: run.NewSignal(), changeNotes: run.NewSignal(),
		pools: map[Handler]*pool{}, pods: map[types.UID]*pod{}, inflight: map[key]*execution{}, pause: maxPause,
		due: run.NewHeap(func(a, b *worker) bool { return a.at.Before(b.at) }, func(w *worker) *run.Place { return &w.place }),
	}
	for h, p := range cfg.Probers {
		m.pools[h] = newPool(h, p, cfg.budget(h))
	}
	return m, nil
}

// AddPod creates a worker for every probe of a pod that has none. It refuses mirror pods and
// pods without a UID. Call it on every sync of the pod, after its status was stored and before
// containers are started: it also makes waiting workers check their container at once.
//
// A worker keeps the spec from its start. A probe with an invalid spec, or with a handler without
// a Prober, is listed in the error and has no worker; the pod's other probes work. A rejected
// readiness probe leaves its container not ready, a rejected startup probe neither started nor
// ready. No rejected probe restarts a container.
//
// After StopLivenessAndStartup, or with a deletion timestamp, only readiness is probed.
func (m *Manager) AddPod(spec *v1.Pod) error {
	if err := identified(spec); err != nil {
		return err
	}
	declared := m.declared(spec)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	p := m.podOf(spec.UID)
	p.leaving = p.leaving || spec.DeletionTimestamp != nil
	for _, w := range p.workers {
		m.requestRound(w, now)
	}
	var errs []error
	for _, at := range declared {
		if p.find(at.container.Name, at.typ) != nil || p.leaving && at.typ != Readiness {
			continue
		}
		w, faults := m.newWorker(p, spec, at)
		if len(faults) > 0 {
			errs = append(errs, faults...)
			continue
		}
		m.begin(w, now)
	}
	p.restored = nil // the rest belongs to missing probes
	if len(errs) > 0 {
		return fmt.Errorf("probe: pod %s/%s (%s): %w", spec.Namespace, spec.Name, spec.UID, errors.Join(errs...))
	}
	return nil
}

// podOf returns the pod, and adds it if necessary. The caller holds mu.
func (m *Manager) podOf(uid types.UID) *pod {
	p := m.pods[uid]
	if p == nil {
		p = &pod{uid: uid}
		m.pods[uid] = p
	}
	return p
}

// identified returns an error for a pod without a unique identity.
func identified(spec *v1.Pod) error {
	switch {
	case spec == nil:
		return errors.New("probe: AddPod: the pod is nil")
	case spec.UID == "":
		return fmt.Errorf("probe: AddPod: pod %s/%s: metadata.uid: is empty", spec.Namespace, spec.Name)
	case podfacts.IsMirror(spec):
		return fmt.Errorf("probe: AddPod: pod %s/%s is a mirror pod; use its static pod", spec.Namespace, spec.Name)
	}
	return nil
}

// declared returns the probes of a pod. The caller must not hold mu, because Config.Timing is
// called.
func (m *Manager) declared(spec *v1.Pod) []declaration {
	declared := declarations(spec)
	if m.cfg.Timing == nil {
		return declared
	}
	for i := range declared {
		declared[i].timing = m.cfg.Timing(spec, declared[i].container, declared[i].typ)
	}
	return declared
}

// newWorker returns an inactive worker, or the errors of the probe.
func (m *Manager) newWorker(p *pod, spec *v1.Pod, at declaration) (*worker, []error) {
	faults := at.faults()
	if len(faults) > 0 {
		return nil, faults
	}
	probe := withDefaults(at.probe)
	handler := HandlerOf(probe)
	pool := m.pools[handler]
	if pool == nil {
		return nil, []error{fmt.Errorf("%s.%s: Config.Probers has no Prober for this handler", at.path, handler)}
	}
	switch own := at.timing; {
	case own.Period != 0 && own.Period < minPeriod:
		return nil, []error{fmt.Errorf("%s: Config.Timing: Period %v: must be at least %v", at.path, own.Period, minPeriod)}
	case own.Timeout != 0 && own.Timeout < minTimeout:
		return nil, []error{fmt.Errorf("%s: Config.Timing: Timeout %v: must be at least %v", at.path, own.Timeout, minTimeout)}
	}
	t := Timing{
		Period:  cmp.Or(at.timing.Period, seconds(probe.PeriodSeconds)),
		Timeout: cmp.Or(at.timing.Timeout, seconds(probe.TimeoutSeconds)),
	}
	return &worker{
		pod: p, spec: spec, container: at.container, probe: probe, pool: pool,
		rules: rulesOf(at.typ, probe), timing: t,
	}, nil
}

// begin starts a new worker. During the first period after the agent's start, its first round is
// at a point within the period, so that not all probes of the node begin at once. The caller
// holds mu.
func (m *Manager) begin(w *worker, now time.Time) {
	w.pod.workers = append(w.pod.workers, w)
	w.restore()
	m.pause = min(m.pause, max(minPause, w.timing.Period/100))
	w.tick = now
	if w.timing.Period > now.Sub(m.cfg.agentStart) {
		w.spread = true
		w.tick = now.Add(spread(w.key(), w.timing.Period))
	}
	w.at = w.tick
	m.schedule(w, now)
	if w.spread {
		// A container that starts only now is probed without that delay.
		m.requestRound(w, now)
	}
}

// spread returns a point in a period that depends only on the probe's key.
func spread(k key, period time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(k.uid)) // a hash never fails
	_, _ = h.Write([]byte(k.container))
	_, _ = h.Write([]byte{0, byte(k.typ)})
	sum := h.Sum64()
	// The remainder depends on the lower half, so the upper half is mixed into it.
	return time.Duration((sum ^ sum>>32) % uint64(period))
}

// StopLivenessAndStartup ends these probes of a pod, including its sidecars, and discards their
// results: during its termination, no container may restart. Readiness continues until RemovePod.
// It is also in effect if the pod is added later.
func (m *Manager) StopLivenessAndStartup(uid types.UID) {
	m.mu.Lock()
	m.podOf(uid)
	m.mu.Unlock()
	m.remove(uid, func(p *pod) []*worker {
		p.leaving = true
		p.restored = slices.DeleteFunc(p.restored, func(r Stored) bool { return r.Type != Readiness })
		var out []*worker
		for _, w := range p.workers {
			if w.rules.typ != Readiness {
				out = append(out, w)
			}
		}
		return out
	})
}

// RemovePod ends all probes of a pod and discards their state. Call it when its containers have
// stopped.
func (m *Manager) RemovePod(uid types.UID) {
	m.remove(uid, func(p *pod) []*worker {
		delete(m.pods, uid)
		return slices.Clone(p.workers)
	})
}

// Prune removes every pod that wanted rejects. wanted is called without locks, and not for pods
// that are added meanwhile.
func (m *Manager) Prune(wanted func(uid types.UID) bool) {
	m.mu.Lock()
	uids := slices.Collect(maps.Keys(m.pods))
	m.mu.Unlock()
	for _, uid := range uids {
		if !wanted(uid) {
			m.RemovePod(uid)
		}
	}
}

// remove ends the workers that choose returns. choose is called under mu.
func (m *Manager) remove(uid types.UID, choose func(*pod) []*worker) {
	m.mu.Lock()
	var removed []*worker
	if p := m.pods[uid]; p != nil {
		for _, w := range choose(p) {
			if w.phase != ended {
				removed = append(removed, w)
			}
			m.detach(w, phaseRemoved)
			p.workers = slices.DeleteFunc(p.workers, func(other *worker) bool { return other == w })
		}
	}
	m.mu.Unlock()
	m.reportRemoved(removed)
}

// detach removes a worker from all queues, cancels its execution and sets its last phase. The
// caller holds mu.
func (m *Manager) detach(w *worker, last phase) {
	m.due.Remove(w)
	if w.phase == queued {
		w.pool.unqueue(w)
	}
	if x := m.inflight[w.key()]; x != nil && x.worker == w {
		x.cut = true
		if x.cancel != nil {
			x.cancel()
		}
	}
	if w.unreported {
		w.unreported = false
		m.changed = slices.DeleteFunc(m.changed, func(other *worker) bool { return other == w })
	}
	w.phase = last
}

// Trigger executes readiness probes of containers at once, for containers that are not yet ready
// (status.Result.ProbeNow). The next executions follow a period later. Trigger has no effect
// while a probe is in progress, or before the container may be probed. Call it after the status
// was stored.
func (m *Manager) Trigger(uid types.UID, containers ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	if p == nil {
		return
	}
	for _, container := range containers {
		if w := p.find(container, Readiness); w != nil {
			w.triggered = w.phase == idle || w.phase == reading
			m.requestRound(w, time.Now())
		}
	}
}

// Results returns the stored results of a pod, including those from Restore until the pod is
// added. Probes without a result are missing. It never returns nil.
func (m *Manager) Results(uid types.UID) Results {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := Results{}
	p := m.pods[uid]
	if p == nil {
		return out
	}
	out = append(out, p.restored...)
	for _, w := range p.workers {
		if w.stored != Unknown {
			out = append(out, w.result())
		}
	}
	return out
}

// Restore sets the results of an earlier agent, before the pod is added. A result stays in effect
// for the same instance of the container until a probe changes it: a ready container stays ready,
// a container that failed its probe still restarts. Restore ignores results other than Success
// and Failure, and results of probes that already have a worker.
func (m *Manager) Restore(uid types.UID, results []Stored) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.podOf(uid)
	for _, r := range results {
		if p.leaving && r.Type != Readiness {
			continue
		}
		if r.ContainerID != "" && (r.Result == Success || r.Result == Failure) && p.find(r.Container, r.Type) == nil {
			p.restored = append(p.restored, r)
		}
	}
}

func (p *pod) find(container string, typ Type) *worker {
	for _, w := range p.workers {
		if w.container.Name == container && w.rules.typ == typ {
			return w
		}
	}
	return nil
}

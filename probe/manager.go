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

// Manager executes the probes of all pods. Use New. All methods are safe for
// concurrent use, and none but Run blocks.
type Manager struct {
	cfg   Config
	log   *slog.Logger
	wake  run.Signal // something is due earlier than Run's timer
	tell  run.Signal // changed is not empty
	pools map[Handler]*pool

	// reporting keeps the callbacks of Metrics in order. It is taken before mu.
	reporting sync.Mutex

	mu   sync.Mutex
	pods map[types.UID]*pod
	due  *run.Heap[*worker] // the idle ones
	// timer is what Run's timer is set to, zero: nothing.
	timer time.Time
	// pause is how long Run sleeps at least after a turn, unless it is asked
	// something: 1 % of the shortest period that there ever was, in [minPause,
	// maxPause]. So on a busy node one turn serves several workers, since waking up
	// costs more than a probe, and nothing is late by more than that, or early.
	pause time.Duration
	// rested is when the pause after the last turn ends.
	rested time.Time
	// inflight are the executions that have not returned, those of workers that
	// are gone included.
	inflight map[key]*execution
	// changed are the workers whose stored result nobody was told of yet.
	changed []*worker
	started bool
}

// pod is a pod with its workers.
type pod struct {
	uid types.UID
	// leaving: its termination has begun.
	leaving bool
	workers []*worker
	// restored is what Restore told of probes that have no worker yet.
	restored []Stored
}

// key names a probe.
type key struct {
	uid       types.UID
	container string
	typ       Type
}

// New returns a Manager, which executes nothing until Run is called.
func New(cfg Config) (*Manager, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, log: cfg.Logger, wake: run.NewSignal(), tell: run.NewSignal(),
		pools: map[Handler]*pool{}, pods: map[types.UID]*pod{}, inflight: map[key]*execution{}, pause: maxPause,
		due: run.NewHeap(func(a, b *worker) bool { return a.at.Before(b.at) }, func(w *worker) *run.Place { return &w.place }),
	}
	for h, p := range cfg.Probers {
		m.pools[h] = newPool(h, p, cfg.budget(h))
	}
	return m, nil
}

// AddPod makes sure that every probe of a pod has a worker. It is meant to be
// called on every sync of the pod, after its status was stored and before
// containers are started: it also makes the workers that wait look again at once.
//
// A worker keeps the spec that it began with. Probes with a bad spec, or of a
// handler without a Prober, are named in the error and have no worker; all others
// of the pod work. So the containers of refused probes have no result: they are
// neither ready nor started, and never restarted for it.
//
// After StopLivenessAndStartup, or with a deletion timestamp, there is only
// readiness.
func (m *Manager) AddPod(spec *v1.Pod) error {
	if err := identified(spec); err != nil {
		return err
	}
	wanted := m.wanted(spec)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	p := m.pods[spec.UID]
	if p == nil {
		p = &pod{uid: spec.UID}
		m.pods[spec.UID] = p
	}
	p.leaving = p.leaving || spec.DeletionTimestamp != nil
	for _, w := range p.workers {
		m.lookAgain(w, now)
	}
	var errs []error
	for _, at := range wanted {
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
	p.restored = nil // what is left is of probes that are not there
	if len(errs) > 0 {
		return fmt.Errorf("probe: pod %s/%s (%s): %w", spec.Namespace, spec.Name, spec.UID, errors.Join(errs...))
	}
	return nil
}

// identified refuses pods that cannot be told from others.
func identified(spec *v1.Pod) error {
	switch {
	case spec == nil:
		return errors.New("probe: AddPod: the pod is nil")
	case spec.UID == "":
		return fmt.Errorf("probe: AddPod: pod %s/%s: metadata.uid: is empty", spec.Namespace, spec.Name)
	case podfacts.IsMirror(spec):
		return fmt.Errorf("probe: AddPod: pod %s/%s is a mirror pod; its static pod is meant", spec.Namespace, spec.Name)
	}
	return nil
}

// wanted are the probes of a pod. It is called without the lock, since it asks
// Config.Timing.
func (m *Manager) wanted(spec *v1.Pod) []declaration {
	wanted := declarations(spec)
	if m.cfg.Timing == nil {
		return wanted
	}
	for i := range wanted {
		wanted[i].timing = m.cfg.Timing(spec, wanted[i].container, wanted[i].typ)
	}
	return wanted
}

// newWorker returns a worker that does nothing yet, or what forbids it.
func (m *Manager) newWorker(p *pod, spec *v1.Pod, at declaration) (*worker, []error) {
	faults := at.faults()
	if len(faults) > 0 {
		return nil, faults
	}
	probe := withDefaults(at.probe)
	handler := HandlerOf(probe)
	pool := m.pools[handler]
	if pool == nil {
		return nil, []error{fmt.Errorf("%s.%s: there is no Prober for it in Config.Probers", at.path, handler)}
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

// begin lets a new worker take its first look. Shortly after the agent's start
// that is somewhere in its first period, so that not all probes of the node begin
// at once. The lock is held.
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
		// A container that begins only now needs no spreading.
		m.lookAgain(w, now)
	}
}

// spread is a point in a period that depends on the probe's name alone.
func spread(k key, period time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(k.uid)) // a hash takes everything
	_, _ = h.Write([]byte(k.container))
	_, _ = h.Write([]byte{0, byte(k.typ)})
	sum := h.Sum64()
	// The upper half is mixed into the lower one, of which the remainder depends.
	return time.Duration((sum ^ sum>>32) % uint64(period))
}

// StopLivenessAndStartup ends these probes of a pod, its sidecars' too, and
// forgets their results: from the begin of its termination, nobody may restart its
// containers. Readiness goes on until RemovePod.
func (m *Manager) StopLivenessAndStartup(uid types.UID) {
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

// RemovePod ends all probes of a pod and forgets all that is known of them. It is
// to be called when its containers have stopped.
func (m *Manager) RemovePod(uid types.UID) {
	m.remove(uid, func(p *pod) []*worker {
		delete(m.pods, uid)
		return slices.Clone(p.workers)
	})
}

// Prune removes every pod that is not wanted. The function is called without
// locks, and not about pods that are added meanwhile.
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

// remove ends the workers of a pod that choose picks. choose is called under the
// lock.
func (m *Manager) remove(uid types.UID, choose func(*pod) []*worker) {
	m.mu.Lock()
	var removed []*worker
	if p := m.pods[uid]; p != nil {
		for _, w := range choose(p) {
			if w.phase != ended {
				removed = append(removed, w)
			}
			m.detach(w, gone)
			p.workers = slices.DeleteFunc(p.workers, func(other *worker) bool { return other == w })
		}
	}
	m.mu.Unlock()
	m.reportRemoved(removed)
}

// detach takes a worker out of everything and puts it into its last phase. The
// lock is held.
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
	if w.untold {
		w.untold = false
		m.changed = slices.DeleteFunc(m.changed, func(other *worker) bool { return other == w })
	}
	w.phase = last
}

// Trigger asks for readiness probes of containers at once, because their status
// was computed and they are not known to be ready (status.Result.ProbeNow). The
// next ones follow a period later. Nothing happens while a probe is in progress, or
// if the container is not to be probed yet. Call it after the status was stored.
func (m *Manager) Trigger(uid types.UID, containers ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	if p == nil {
		return
	}
	for _, container := range containers {
		if w := p.find(container, Readiness); w != nil {
			w.triggered = w.phase == idle || w.phase == looking
			m.lookAgain(w, time.Now())
		}
	}
}

// Results returns the stored results of a pod, and those of Restore as long as the
// pod has not been added; probes without one are missing. It is never nil.
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

// Restore tells what an earlier agent knew, before the pod is added. Such a result
// counts as long as the instance of the container is the same, until a probe finds
// another: a container that was ready stays so, one that was to be restarted still
// is. Results that are neither Success nor Failure, and those of probes that have
// a worker already, are ignored.
func (m *Manager) Restore(uid types.UID, results []Stored) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	if p == nil {
		p = &pod{uid: uid}
		m.pods[uid] = p
	}
	for _, r := range results {
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

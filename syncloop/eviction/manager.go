package eviction

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
)

// Config configures a Manager. Run calls the callbacks one at a time, and Watch beside them. A
// callback with a context that ignores its end continues beside the next ones, but not beside
// another call for the same purpose: Measure has 1 min, Kill has Victim.KillTimeout, and each
// removal has 2 min. Callbacks without a context must not block.
type Config struct {
	Policy Policy
	// Measure measures the node and its pods. An error skips the pass. Required.
	Measure func(ctx context.Context) (Usage, error)
	// Pods returns the active pods. They are shared and not changed. Required.
	Pods func() []*v1.Pod
	// Kill stops a pod within its GraceSeconds. It returns when the containers have stopped, or
	// with an error when ctx is done (Victim.KillTimeout). It changes the pod's status by v.Apply.
	// After an error the next pass decides again. Required.
	Kill func(ctx context.Context, v Victim) error
	// Cleaned reports whether the resources of a killed pod were released. The next pass waits for
	// that, at most 30 s. Optional: without it the Manager does not wait.
	Cleaned func(pod *v1.Pod) bool
	// RemoveDeadContainers and RemoveUnusedImages free disk space before an eviction. Optional.
	RemoveDeadContainers, RemoveUnusedImages func(ctx context.Context) error
	// Watch calls wake, which never blocks, when a resource runs short, for example after a kernel
	// notification. It returns when ctx is done. Optional: without it the Manager runs only every
	// 10 s.
	Watch func(ctx context.Context, wake func()) error

	// Event records events: EvictionThresholdMet on Node, Evicted on pods, with annotations.
	// Optional.
	Event func(ref v1.ObjectReference, annotations map[string]string, eventtype, reason, message string)
	// Node is the object of the node's events.
	Node v1.ObjectReference
	// OnPressure is called after each change of the pressure. Optional.
	OnPressure func(Pressure)
	// OnEvict is called before a pod is killed, for metrics. Optional.
	OnEvict func(Victim)
	// Logger receives errors. Optional: without it they are discarded.
	Logger *slog.Logger
}

const (
	// interval is the pause between passes.
	interval = 10 * time.Second
	// cleanupLimit bounds the wait for Cleaned, which is called every second.
	cleanupLimit = 30 * time.Second
	// measureLimit bounds Measure, and reclaimLimit bounds each removal.
	measureLimit = time.Minute
	reclaimLimit = 2 * time.Minute
	// returnLimit is the time for a callback to return after the end of its context.
	returnLimit = time.Second
	// shutdownTimeout is the longest wait of an ending Run for callbacks.
	shutdownTimeout = 10 * time.Second
)

func (c *Config) complete() error {
	f := fields.Of("eviction: Config")
	f.Required("Measure", c.Measure)
	f.Required("Pods", c.Pods)
	f.Required("Kill", c.Kill)
	fields.Number(f, "Policy.Transition", &c.Policy.Transition, 0)
	fields.Number(f, "Policy.MaxPodGrace", &c.Policy.MaxPodGrace, 0)
	fields.Default(&c.Event, func(v1.ObjectReference, map[string]string, string, string, string) {})
	fields.Default(&c.OnPressure, func(Pressure) {})
	fields.Default(&c.OnEvict, func(Victim) {})
	fields.Logger(&c.Logger)
	return f.Err()
}

var (
	// ErrAlreadyRun is returned by a second Run.
	ErrAlreadyRun = fields.AlreadyRun("eviction")
	// ErrShutdownTimeout is wrapped by the error of Run if callbacks did not return in time.
	ErrShutdownTimeout = run.ErrShutdownTimeout
)

// Manager evicts pods. Use New. Only Pressure and Measured are safe for concurrent use.
type Manager struct {
	cfg   Config
	ran   atomic.Bool
	state State // used by Run only
	parts run.Group
	calls run.Calls

	mu       sync.Mutex
	pressure Pressure
	measured bool // the resources were measured
}

// New returns a Manager, or an error that names invalid fields.
func New(cfg Config) (*Manager, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Manager{cfg: cfg}, nil
}

// Pressure returns the pressure of the newest pass, or none before the first one.
func (m *Manager) Pressure() Pressure {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pressure
}

// Measured reports whether Pressure is the result of a measurement. Without thresholds and
// Policy.LocalStorage it is always true.
func (m *Manager) Measured() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.measured || !m.cfg.Policy.hasWork()
}

// Run runs a pass immediately, every 10 s and after each wake. When ctx is done, it waits for the
// callbacks in progress, at most 10 s, and returns nil, or an error that lists the rest and
// wraps ErrShutdownTimeout. After a pass that ended a pod, the next pass follows when
// the pod is cleaned up, but not within a second. Errors and panics of callbacks are logged, and
// the next pass follows. Without thresholds and Policy.LocalStorage no pass runs. A second Run
// returns ErrAlreadyRun.
func (m *Manager) Run(ctx context.Context) error {
	if m.ran.Swap(true) {
		return ErrAlreadyRun
	}
	if !m.cfg.Policy.hasWork() {
		<-ctx.Done()
		return nil
	}
	woken := run.NewSignal()
	m.parts.Go("pass", func() { m.loop(ctx, woken) })
	if m.cfg.Watch != nil {
		m.parts.Go("Watch", func() {
			err := run.Guard("eviction: Config.Watch", func() error { return m.cfg.Watch(ctx, woken.Wake) })
			if err != nil && ctx.Err() == nil {
				m.cfg.Logger.Error("watch for resource shortages failed; continuing with periodic passes", "err", err)
			}
		})
	}
	<-ctx.Done()
	end := time.Now().Add(shutdownTimeout)
	unfinished := append(m.parts.Wait(shutdownTimeout), m.calls.Wait(max(0, time.Until(end)))...)
	return run.StillRunning("eviction", shutdownTimeout, unfinished)
}

func (m *Manager) loop(ctx context.Context, woken <-chan struct{}) {
	for ctx.Err() == nil {
		killed, err := m.pass(ctx)
		if err != nil && ctx.Err() == nil {
			m.cfg.Logger.Error("eviction pass failed", "err", err)
		}
		if len(killed) > 0 && run.Sleep(ctx, time.Second) {
			m.awaitCleanup(ctx, killed)
			continue
		}
		select {
		case <-ctx.Done():
		case <-woken:
		case <-time.After(interval):
		}
	}
}

// call calls a callback with a context that ends after limit, and returns soon afterwards even if
// the callback does not. A later call with the name and the object waits for the callback.
func (m *Manager) call(ctx context.Context, limit time.Duration, name, object string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit+returnLimit)
	defer cancel()
	return m.calls.Do(ctx, name, object, func() error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return run.Guard("eviction: Config."+name, func() error { return f(ctx) })
	})
}

// pass decides once and returns the pods that it killed and that have ended.
func (m *Manager) pass(ctx context.Context) (killed []*v1.Pod, err error) {
	pods, err := m.pods()
	if err != nil {
		return nil, err
	}
	usage, err := m.measure(ctx)
	if err != nil {
		return nil, err
	}
	d := m.cfg.Policy.Decide(m.state, usage, pods, time.Now())
	m.state = d.State
	m.setPressure(d.Pressure)
	if killed := m.killAll(ctx, d.OverLimit); len(killed) > 0 || d.Met == nil || ctx.Err() != nil {
		return killed, nil
	}
	pods = others(pods, d.OverLimit) // a failed kill must not delay other evictions
	m.guard("Event", func() {
		m.cfg.Event(m.cfg.Node, nil, v1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim "+string(d.Met.Threshold.Signal.Resource()))
	})
	if m.reclaim(ctx, d.Reclaim) {
		fresh, err := m.measure(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case err != nil: // the old measurement shows a shortage
			m.cfg.Logger.Error("cannot measure reclaimed resources", "err", err)
		case d.Cleared(fresh, time.Now()):
			return nil, nil
		case fresh.Signals[d.Met.Threshold.Signal].valid(time.Now()): // otherwise the pods' usage may be missing
			usage = fresh
		}
	}
	victim, ok := m.cfg.Policy.Candidate(d, usage, pods, time.Now())
	if !ok {
		m.cfg.Logger.Warn("no pod can be evicted", "signal", d.Met.Threshold.Signal)
		return nil, nil
	}
	return m.killAll(ctx, []Victim{victim}), nil
}

func (m *Manager) pods() (pods []*v1.Pod, err error) {
	defer m.parts.Begin("Pods")()
	err = run.Guard("eviction: Config.Pods", func() error { pods = m.cfg.Pods(); return nil })
	return pods, err
}

func (m *Manager) measure(ctx context.Context) (Usage, error) {
	var u Usage // a late call may still write it after an error
	err := m.call(ctx, measureLimit, "Measure", "the node", func(ctx context.Context) (err error) {
		u, err = m.cfg.Measure(ctx)
		return err
	})
	if err != nil {
		return Usage{}, fmt.Errorf("eviction: measuring: %w", err)
	}
	return u, nil
}

// setPressure stores the pressure and reports a change.
func (m *Manager) setPressure(p Pressure) {
	m.mu.Lock()
	changed := m.pressure != p
	m.pressure, m.measured = p, true
	m.mu.Unlock()
	if changed {
		m.guard("OnPressure", func() { m.cfg.OnPressure(p) })
	}
}

// guard calls a callback and logs a panic.
func (m *Manager) guard(callback string, call func()) {
	defer m.parts.Begin(callback)()
	if err := run.Guard("eviction: Config."+callback, func() error { call(); return nil }); err != nil {
		m.cfg.Logger.Error("eviction callback failed", "err", err, "stack", run.StackOf(err))
	}
}

// reclaim removes dead containers and unused images, and reports whether it tried any.
func (m *Manager) reclaim(ctx context.Context, r Reclaim) (tried bool) {
	for _, step := range []struct {
		on       bool
		callback string
		what     string
		do       func(context.Context) error
	}{
		{r.DeadContainers, "RemoveDeadContainers", "dead containers", m.cfg.RemoveDeadContainers},
		{r.UnusedImages, "RemoveUnusedImages", "unused images", m.cfg.RemoveUnusedImages},
	} {
		if !step.on || step.do == nil {
			continue
		}
		tried = true
		if err := m.call(ctx, reclaimLimit, step.callback, "of the node", step.do); err != nil && ctx.Err() == nil {
			m.cfg.Logger.Error("cannot reclaim disk space", "from", step.what, "err", err)
		}
	}
	return tried
}

// killAll kills the pods in order and returns the ended pods.
func (m *Manager) killAll(ctx context.Context, victims []Victim) (killed []*v1.Pod) {
	for _, v := range victims {
		if ctx.Err() != nil {
			break
		}
		m.guard("OnEvict", func() { m.cfg.OnEvict(v) })
		m.guard("Event", func() {
			m.cfg.Event(podfacts.Reference(v.Pod), v.Annotations, v1.EventTypeWarning, ReasonEvicted, v.Message)
		})
		err := m.call(ctx, v.KillTimeout(), "Kill", string(v.Pod.UID), func(ctx context.Context) error { return m.cfg.Kill(ctx, v) })
		if err != nil && ctx.Err() == nil {
			m.cfg.Logger.Error("evicted pod did not stop", "pod", v.Pod.Namespace+"/"+v.Pod.Name, "podUID", v.Pod.UID, "err", err)
		}
		if err == nil {
			killed = append(killed, v.Pod)
		}
	}
	return killed
}

func others(pods []*v1.Pod, victims []Victim) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool {
		return slices.ContainsFunc(victims, func(v Victim) bool { return v.Pod.UID == pod.UID })
	})
}

// cleaned calls Config.Cleaned. A panic counts as cleaned, so that it does not delay the next pass.
func (m *Manager) cleaned(pod *v1.Pod) (done bool) {
	done = true
	m.guard("Cleaned", func() { done = m.cfg.Cleaned(pod) })
	return done
}

// awaitCleanup waits until the pods' resources are released.
func (m *Manager) awaitCleanup(ctx context.Context, killed []*v1.Pod) {
	if m.cfg.Cleaned == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupLimit)
	defer cancel()
	for _, pod := range killed {
		for !m.cleaned(pod) {
			if !run.Sleep(ctx, time.Second) {
				return
			}
		}
	}
}

package eviction

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
)

// Config is what a Manager works with.
type Config struct {
	Policy Policy
	// Measure measures the node and its pods anew. Required. An error skips the pass.
	Measure func(ctx context.Context) (Usage, error)
	// Pods are the active pods. They are shared and never changed. Required.
	Pods func() []*v1.Pod
	// Kill ends a pod with its GraceSeconds, and returns when its containers have
	// stopped, or with an error when ctx ends. Its status is changed by v.Apply. Required.
	Kill func(ctx context.Context, v Victim) error
	// Cleaned tells whether what a killed pod held on the node is gone; the next pass
	// waits for that, 30 s at most. nil: nothing is waited for.
	Cleaned func(pod *v1.Pod) bool
	// RemoveDeadContainers and RemoveUnusedImages win back disk before a pod has to go.
	// nil: there is nothing to remove.
	RemoveDeadContainers, RemoveUnusedImages func(ctx context.Context) error
	// Watch waits for the kernel or the like to tell that something runs short, and calls
	// wake, which never blocks, for a pass at once. It ends with ctx. nil: passes are made
	// every 10 s alone.
	Watch func(ctx context.Context, wake func()) error

	// Event records events: EvictionThresholdMet on Node, Evicted on pods, with
	// annotations. nil records none.
	Event func(ref v1.ObjectReference, annotations map[string]string, eventtype, reason, message string)
	// Node is what events of the node are recorded on.
	Node v1.ObjectReference
	// OnPressure is called when the pressure has changed. nil: nobody is.
	OnPressure func(Pressure)
	// OnEvict is called before a pod is killed, for metrics. nil: nobody is.
	OnEvict func(Victim)
	// Logger is told what goes wrong. nil means none.
	Logger *slog.Logger
}

const (
	// interval is the pause between two passes.
	interval = 10 * time.Second
	// cleanupLimit bounds the wait for Cleaned, which is called every second.
	cleanupLimit = 30 * time.Second
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

// Manager evicts pods. Use New.
type Manager struct {
	cfg   Config
	state State // Run's

	mu       sync.Mutex
	pressure Pressure
}

// New returns a Manager. Errors name the field.
func New(cfg Config) (*Manager, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Manager{cfg: cfg}, nil
}

// Pressure is what the node is short of, by the newest pass. It may be called at any time.
func (m *Manager) Pressure() Pressure {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pressure
}

// Run makes a pass at once and then every 10 s, or when Watch wakes it, until ctx ends;
// it then returns nil. After a pass in which a pod has ended the next one follows as soon
// as that pod is cleaned up, a second later at the earliest. It is called once. Failures are logged and tried again.
func (m *Manager) Run(ctx context.Context) error {
	if !m.cfg.Policy.watches() {
		<-ctx.Done()
		return nil
	}
	woken := run.NewSignal()
	if m.cfg.Watch == nil {
		return m.loop(ctx, woken)
	}
	return run.All(ctx, func(ctx context.Context) error { return m.loop(ctx, woken) }, func(ctx context.Context) error {
		err := m.cfg.Watch(ctx, woken.Wake)
		if err != nil && ctx.Err() == nil {
			m.cfg.Logger.Error("nobody tells any more that something runs short; it is seen by the next pass", "err", err)
		}
		<-ctx.Done()
		return nil
	})
}

func (m *Manager) loop(ctx context.Context, woken <-chan struct{}) error {
	for ctx.Err() == nil {
		killed, err := m.pass(ctx)
		if err != nil && ctx.Err() == nil {
			m.cfg.Logger.Error("cannot tell whether pods have to be evicted", "err", err)
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
	return nil
}

// pass decides once, and returns the pods that it has killed and that have ended.
func (m *Manager) pass(ctx context.Context) (killed []*v1.Pod, err error) {
	pods := m.cfg.Pods()
	usage, err := m.measure(ctx)
	if err != nil {
		return nil, err
	}
	d := m.cfg.Policy.Decide(m.state, usage, pods, time.Now())
	m.state = d.State
	m.tell(d.Pressure)
	if killed := m.killAll(ctx, d.OverLimit); len(killed) > 0 || d.Met == nil || ctx.Err() != nil {
		return killed, nil
	}
	pods = others(pods, d.OverLimit) // they cannot be killed: that must not hold up the others' turn
	m.cfg.Event(m.cfg.Node, nil, v1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim "+string(d.Met.Threshold.Signal.Resource()))
	if m.reclaim(ctx, d.Reclaim) {
		fresh, err := m.measure(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case err != nil: // by what was known, that does not suffice
			m.cfg.Logger.Error("cannot tell what removing unused things has won", "err", err)
		case d.Cleared(fresh, time.Now()):
			return nil, nil
		case fresh.Signals[d.Met.Threshold.Signal].known(time.Now()): // else pods were not measured for it
			usage = fresh
		}
	}
	victim, ok := m.cfg.Policy.Candidate(d, usage, pods, time.Now())
	if !ok {
		m.cfg.Logger.Warn("nobody can be evicted", "signal", d.Met.Threshold.Signal)
		return nil, nil
	}
	return m.killAll(ctx, []Victim{victim}), nil
}

func (m *Manager) measure(ctx context.Context) (u Usage, err error) {
	err = run.Guard("eviction: Config.Measure", func() error { u, err = m.cfg.Measure(ctx); return err })
	if err != nil {
		return Usage{}, fmt.Errorf("eviction: measuring: %w", err)
	}
	return u, nil
}

// tell remembers the pressure.
func (m *Manager) tell(p Pressure) {
	m.mu.Lock()
	changed := m.pressure != p
	m.pressure = p
	m.mu.Unlock()
	if changed {
		m.cfg.OnPressure(p)
	}
}

// reclaim removes what nobody needs, and tells whether it has tried anything.
func (m *Manager) reclaim(ctx context.Context, r Reclaim) (tried bool) {
	for _, step := range []struct {
		on   bool
		what string
		do   func(context.Context) error
	}{
		{r.DeadContainers, "dead containers", m.cfg.RemoveDeadContainers},
		{r.UnusedImages, "unused images", m.cfg.RemoveUnusedImages},
	} {
		if !step.on || step.do == nil {
			continue
		}
		tried = true
		if err := run.Guard("eviction: removing "+step.what, func() error { return step.do(ctx) }); err != nil && ctx.Err() == nil {
			m.cfg.Logger.Error("cannot win back disk", "from", step.what, "err", err)
		}
	}
	return tried
}

// killAll kills the pods one after the other, and returns those that have ended.
func (m *Manager) killAll(ctx context.Context, victims []Victim) (killed []*v1.Pod) {
	for _, v := range victims {
		if ctx.Err() != nil {
			break
		}
		m.cfg.OnEvict(v)
		m.cfg.Event(podfacts.Reference(v.Pod), v.Annotations, v1.EventTypeWarning, Reason, v.Message)
		limited, cancel := context.WithTimeout(ctx, v.KillTimeout())
		err := run.Guard("eviction: Config.Kill", func() error { return m.cfg.Kill(limited, v) })
		cancel()
		if err != nil && ctx.Err() == nil {
			m.cfg.Logger.Error("an evicted pod has not ended", "pod", v.Pod.Namespace+"/"+v.Pod.Name, "podUID", v.Pod.UID, "err", err)
		}
		if err == nil {
			killed = append(killed, v.Pod)
		}
	}
	return killed
}

// others are the pods that are no victims.
func others(pods []*v1.Pod, victims []Victim) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool {
		return slices.ContainsFunc(victims, func(v Victim) bool { return v.Pod.UID == pod.UID })
	})
}

// awaitCleanup waits until what the pods held is gone.
func (m *Manager) awaitCleanup(ctx context.Context, killed []*v1.Pod) {
	if m.cfg.Cleaned == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupLimit)
	defer cancel()
	for _, pod := range killed {
		for !m.cfg.Cleaned(pod) {
			if !run.Sleep(ctx, time.Second) {
				return
			}
		}
	}
}

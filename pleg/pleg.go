package pleg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
)

var (
	// ErrNoEvents is returned by PodEvents of a Runtime without events.
	ErrNoEvents = errors.New("pleg: the runtime has no events")
	// ErrNotRunning is wrapped by the errors of Observe and Healthy unless Run is running.
	ErrNotRunning = errors.New("pleg: Run is not running")
	// ErrAlreadyRun is returned by a second Run.
	ErrAlreadyRun = fields.AlreadyRun("pleg")
	// ErrShutdownTimeout is wrapped by the error of Run if calls of the Runtime or callbacks did not
	// return in time.
	ErrShutdownTimeout = run.ErrShutdownTimeout
	// ErrNotInspected is wrapped by the error of Get for a listed pod that was not inspected yet.
	ErrNotInspected = errors.New("pleg: listed but not inspected yet")
	// ErrUnhealthy is wrapped by the errors of Healthy and Health.Err.
	ErrUnhealthy = errors.New("pleg: unhealthy")
)

// PLEG observes a runtime. Use New. It is safe for concurrent use.
type PLEG struct {
	cfg     Config
	log     *slog.Logger
	events  EventStream // nil if the runtime has none
	deliver *delivery
	wake    run.Signal // Run must check for due queries
	// runs is closed when Run begins.
	runs chan struct{}

	mu   sync.Mutex
	core *core
	// begun is true once Run was called; running is true while it processes results.
	begun, running bool
}

// New returns a PLEG that observes during Run.
func New(cfg Config) (*PLEG, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	p := &PLEG{cfg: cfg, log: cfg.Logger, deliver: newDelivery(cfg), wake: run.NewSignal(), runs: make(chan struct{})}
	p.events, _ = cfg.Runtime.(EventStream)
	p.core = newCore(cfg, p.events != nil)
	return p, nil
}

// Runs returns a channel that is closed when Run begins. Observe fails before that.
func (p *PLEG) Runs() <-chan struct{} { return p.runs }

// Get returns the cached status of a pod and never blocks. The status is shared and must not be
// changed.
//
// An unseen pod has an empty status. Its ObservedAt is the latest time at which the pod is
// proven absent, zero without a proof. If the last inspection failed, Get returns its error and
// the last good status, or an empty one. For a listed pod without an inspection the error is
// ErrNotInspected.
func (p *PLEG) Get(uid types.UID) (*observed.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.core.pods[uid]
	switch {
	case r == nil:
		return &observed.Pod{UID: uid, ObservedAt: p.core.absentSince(nil)}, nil
	case r.state == inspected:
		return r.status, r.err
	case r.err != nil:
		return &observed.Pod{UID: uid}, r.err
	case r.state == uninspected:
		return &observed.Pod{UID: uid}, fmt.Errorf("pod %s: %w", uid, ErrNotInspected)
	default:
		return &observed.Pod{UID: uid, ObservedAt: p.core.absentSince(r)}, nil
	}
}

// Observe returns a status of the pod that was observed after the given moment. It returns a
// cached one if possible, or else inspects the pod and waits for the result. An inspection that
// begins after the call of Observe is always new enough, independent of clocks. Concurrent calls
// for one pod share inspections: at most two run, and a third one begins when one of them ends.
//
// after must come from this process's time.Now, whose monotonic reading is unaffected by jumps
// of the wall clock. A time without that reading, for example a parsed or stored one, is not
// comparable and counts as now. The zero time is before every inspection.
//
// If the inspection fails, Observe returns a nil status and the error; the next call inspects
// again. It returns the context's error when ctx is done, and ErrNotRunning unless Run is
// running. The status is shared and must not be changed.
func (p *PLEG) Observe(ctx context.Context, uid types.UID, after time.Time) (*observed.Pod, error) {
	w, s, err := p.enqueue(uid, after)
	if w == nil {
		return s, err
	}
	select {
	case a := <-w.answer:
		return a.status, a.err
	case <-ctx.Done():
		p.abandon(uid, w)
		return nil, fmt.Errorf("pod %s: observe: %w", uid, ctx.Err())
	}
}

// enqueue returns a cached status, or a waiter.
func (p *PLEG) enqueue(uid types.UID, after time.Time) (*waiter, *observed.Pod, error) {
	if now := time.Now(); !sameClock(after, now) {
		after = now
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return nil, nil, fmt.Errorf("pod %s: observe: %w", uid, ErrNotRunning)
	}
	if s := p.core.cached(uid, after); s != nil {
		return nil, s, nil
	}
	w := &waiter{ticket: p.core.seq, after: after, answer: make(chan answer, 1)}
	r := p.core.get(uid)
	r.waiters = append(r.waiters, w)
	p.core.schedule(r)
	p.wake.Wake()
	return w, nil, nil
}

// sameClock reports whether a time is comparable with now: both are monotonic, or the test runs
// in a testing/synctest bubble, which has one clock.
func sameClock(t, now time.Time) bool {
	hasMonotonic := func(t time.Time) bool { return t != t.Round(0) }
	return t.IsZero() || hasMonotonic(t) || !hasMonotonic(now)
}

func (p *PLEG) abandon(uid types.UID, w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.core.abandon(uid, w)
}

// Request requests an inspection of a pod. The cause determines its time, and whether it is
// reported without a change. Request never blocks. Requests before the inspection begins share
// it. A request before Run is kept.
func (p *PLEG) Request(uid types.UID, cause Cause) {
	p.mu.Lock()
	p.core.request(uid, cause, time.Now())
	p.mu.Unlock()
	p.wake.Wake()
}

// Pods returns the runtime's pods: the last complete list, updated by later inspections, in no
// particular order. The inner slices are shared and must not be changed. Before the first
// complete list (see Complete) it proves no absence.
func (p *PLEG) Pods() []observed.ListedPod {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]observed.ListedPod, 0, len(p.core.pods))
	for _, r := range p.core.pods {
		if r.state.present() {
			out = append(out, r.view)
		}
	}
	return out
}

// ListedAt returns the start of the last complete list, zero before the first one.
func (p *PLEG) ListedAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.list.at
}

// Complete reports whether all pods were listed at least once.
func (p *PLEG) Complete() bool { return !p.ListedAt().IsZero() }

// Health returns the state of the observation.
func (p *PLEG) Health() Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.core.health()
	h.Running, h.Stale = p.running, p.core.stalePods(time.Now())
	return h
}

// Healthy returns nil if the last complete list is new enough, or else an error with the reason
// that wraps ErrUnhealthy. It is cheap.
func (p *PLEG) Healthy() error {
	p.mu.Lock()
	h := p.core.health()
	h.Running = p.running
	p.mu.Unlock()
	return h.Err(time.Now())
}

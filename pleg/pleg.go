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
	// ErrNoEvents is what a Runtime's PodEvents returns if it has no events.
	ErrNoEvents = errors.New("pleg: the runtime has no events")
	// ErrNotRunning is returned by calls that wait for Run.
	ErrNotRunning = errors.New("pleg: Run is not running")
	// ErrAlreadyRun is returned by a second Run.
	ErrAlreadyRun = fields.AlreadyRun("pleg")
	// ErrNotInspected is returned by Get for a pod that a list showed and that
	// nobody could look at yet.
	ErrNotInspected = errors.New("pleg: listed but not inspected yet")
	// ErrUnhealthy is wrapped by what Healthy and Health.Err return.
	ErrUnhealthy = errors.New("pleg: unhealthy")
)

// PLEG observes a runtime. Use New. All methods are safe for concurrent use.
type PLEG struct {
	cfg     Config
	log     *slog.Logger
	events  EventStream // nil when the runtime has none
	deliver *delivery
	wake    run.Signal // something to do for Run

	mu   sync.Mutex
	core *core
	// begun: Run was called; running: it takes in results.
	begun, running bool
}

// New returns a PLEG, which observes nothing until Run is called.
func New(cfg Config) (*PLEG, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	p := &PLEG{cfg: cfg, log: cfg.Logger, deliver: newDelivery(cfg), wake: run.NewSignal()}
	p.events, _ = cfg.Runtime.(EventStream)
	p.core = newCore(cfg, p.events != nil)
	return p, nil
}

// Get returns the newest known status of a pod from memory and never blocks. The
// status is shared and must not be changed.
//
// A pod that nobody has seen has an empty status; its ObservedAt is when the pod
// is known not to have been there, zero before the first complete list. If the
// last look at the pod failed, Get returns the last good status, or an empty
// one, together with the error. A pod that was listed and not looked at yet is
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

// Observe returns a status of the pod that was observed after the given moment:
// a cached one if there is one, otherwise it looks at the pod and waits for
// that. A look that begins after Observe was called is always new enough,
// whatever the clocks say. Concurrent calls for one pod share looks: two
// are in progress at most, and a third begins when one of them ends.
//
// after must come from this process's time.Now, which the wall clock's jumps do
// not touch. A moment without a monotonic reading, such as one that was parsed
// or stored, cannot be compared with a look: it counts as now. The zero time is
// before every look.
//
// If the look fails Observe returns a nil status and the error; the next call
// tries again. It returns the context's error when the context ends first, and
// ErrNotRunning unless Run is running. The status is shared and must not be
// changed.
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

// enqueue returns a cached answer, or a waiter for one.
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

// sameClock tells that a moment is on the same clock as now: the monotonic one,
// or, in a testing/synctest bubble, the only one.
func sameClock(t, now time.Time) bool {
	hasMonotonic := func(t time.Time) bool { return t != t.Round(0) }
	return t.IsZero() || hasMonotonic(t) || !hasMonotonic(now)
}

// abandon removes a waiter that waits no longer.
func (p *PLEG) abandon(uid types.UID, w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.core.abandon(uid, w)
}

// Request requests an inspection of a pod. The cause decides when it begins and
// whether it is reported without a change. Request never blocks; requests that come
// before the inspection begins share it. A request before Run is kept.
func (p *PLEG) Request(uid types.UID, cause Cause) {
	p.mu.Lock()
	p.core.request(uid, cause, time.Now())
	p.mu.Unlock()
	p.wake.Wake()
}

// Pods returns all pods that the runtime has: those of the last complete list, as
// amended by later looks at single pods, in no order. The slices inside are
// shared and must not be changed. Without a complete list (see Complete) it
// proves the absence of nothing.
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

// ListedAt returns when the last complete list began, zero before the first of
// this Run.
func (p *PLEG) ListedAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.list.at
}

// Complete tells that all pods were listed at least once.
func (p *PLEG) Complete() bool { return !p.ListedAt().IsZero() }

// Health returns the state of the observation.
func (p *PLEG) Health() Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.core.health()
	h.Running, h.Stale = p.running, p.core.stalePods(time.Now())
	return h
}

// Healthy returns nil if the last complete list is young enough, otherwise an
// error that wraps ErrUnhealthy and names the reason. It is cheap.
func (p *PLEG) Healthy() error {
	p.mu.Lock()
	h := p.core.health()
	h.Running = p.running
	p.mu.Unlock()
	return h.Err(time.Now())
}

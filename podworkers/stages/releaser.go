package stages

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

// ReleaserConfig configures a Releaser. List, Try and Gone are required.
type ReleaserConfig struct {
	// List has the stages to release. Required.
	List *List
	// Try locks the pod until end is called, so that no other code works on it. It returns false
	// at once if the pod is locked. Required.
	Try func(uid types.UID) (end func(), ok bool)
	// Gone reports whether no part of the agent needs the pod: no source names it, its worker has
	// finished, and its containers have stopped. It must return false while any of that is
	// unknown, for example before sources and runtime were read. It is called with the pod locked
	// and must return from memory. Required.
	Gone func(uid types.UID) bool

	// Others returns pods with leftovers that belong to no stage, such as stopped containers. It
	// must return from memory. Optional.
	Others func() []types.UID
	// Release releases all resources of a pod. It is called with the pod locked. Work besides
	// the stages must bound its own waits. Default: List.Release with Stopped, and then with
	// Gone.
	Release func(ctx context.Context, uid types.UID) error

	// Rest is the pause between a failed release and the next attempt. Default: 1 s.
	Rest time.Duration
	// ShutdownTimeout bounds the wait of an ending Run for calls that ignore their context.
	// Default: 10 s.
	ShutdownTimeout time.Duration
	// Logger receives released pods and failed releases. Default: no log.
	Logger *slog.Logger
}

// parallel is the largest number of parallel releases.
const parallel = 8

func (c ReleaserConfig) withDefaults() (ReleaserConfig, error) {
	f := fields.Of("stages: ReleaserConfig")
	f.Required("List", c.List)
	f.Required("Try", c.Try)
	f.Required("Gone", c.Gone)
	fields.Number(f, "Rest", &c.Rest, time.Second)
	fields.Number(f, "ShutdownTimeout", &c.ShutdownTimeout, 10*time.Second)
	fields.Default(&c.Others, func() []types.UID { return nil })
	fields.Logger(&c.Logger)
	if c.Release == nil {
		c.Release = func(ctx context.Context, uid types.UID) error {
			if err := c.List.Release(ctx, uid, Stopped); err != nil {
				return err
			}
			return c.List.Release(ctx, uid, Gone)
		}
	}
	return c, f.Err()
}

// Releaser releases stages of pods that have no worker: leftovers of a killed agent, and
// resources that a worker could not release before it ended. Use NewReleaser. It is safe for
// concurrent use.
type Releaser struct {
	cfg      ReleaserConfig
	woken    run.Signal // a listing is requested
	ended    run.Signal // a listing or a release has ended
	releases run.Group

	mu      sync.Mutex
	ran     bool
	queue   queue
	listing bool
	again   bool   // woken while listing
	listErr string // last logged error of a listing
}

// NewReleaser checks the configuration and returns a Releaser that works in Run.
func NewReleaser(cfg ReleaserConfig) (*Releaser, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Releaser{
		cfg: cfg, woken: run.NewSignal(), ended: run.NewSignal(),
		queue: queue{parallel: parallel, rest: cfg.Rest, pods: map[types.UID]*leftover{}},
	}, nil
}

// Wake requests a listing of leftovers. It never blocks. Housekeeping calls it.
func (r *Releaser) Wake() { r.woken.Wake() }

// Run releases leftovers until ctx is done. It lists them once at its start and after each Wake.
// It logs an error when it changes. A failed release is retried after ReleaserConfig.Rest; a
// failed listing and a pod that was locked or not Gone wait for the next Wake. When ctx is done,
// Run waits for running calls, including those of the List, and returns nil. Calls that ignore
// their context are listed in an error that wraps ErrShutdownTimeout. A second Run returns
// ErrAlreadyRun.
func (r *Releaser) Run(ctx context.Context) error {
	r.mu.Lock()
	ran := r.ran
	r.ran = true
	r.mu.Unlock()
	if ran {
		return ErrAlreadyRun
	}
	r.woken.Wake()
	for ctx.Err() == nil {
		r.wait(ctx, r.releaseDue(ctx))
	}
	end := time.Now().Add(r.cfg.ShutdownTimeout)
	err := run.StillRunning("stages", r.cfg.ShutdownTimeout, r.releases.Wait(r.cfg.ShutdownTimeout))
	return errors.Join(err, r.cfg.List.Wait(max(0, time.Until(end))))
}

// wait blocks until an event, the next due time or the end of ctx.
func (r *Releaser) wait(ctx context.Context, next time.Time) {
	var due <-chan time.Time
	if !next.IsZero() {
		due = time.After(time.Until(next))
	}
	select {
	case <-ctx.Done():
	case <-r.ended:
	case <-due:
	case <-r.woken:
		r.list(ctx)
	}
}

// list starts a listing. If one is running, it repeats it afterwards, since that one may have
// missed recent changes.
func (r *Releaser) list(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = r.listing
	if r.listing {
		return
	}
	r.listing = true
	r.releases.Go("listing leftovers", func() {
		found, err := r.leftovers(ctx)
		r.listed(ctx, found, err)
		r.ended.Wake()
	})
}

func (r *Releaser) leftovers(ctx context.Context) (map[types.UID][]string, error) {
	found, err := r.cfg.List.Leftovers(ctx)
	return found, errors.Join(err, run.Guard("ReleaserConfig.Others", func() error {
		for _, uid := range r.cfg.Others() {
			if _, ok := found[uid]; !ok && uid != "" {
				found[uid] = nil
			}
		}
		return nil
	}))
}

func (r *Releaser) listed(ctx context.Context, found map[types.UID][]string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listing = false
	if r.again {
		r.woken.Wake()
	}
	if ctx.Err() != nil {
		return
	}
	r.queue.listed(found, err == nil, time.Now())
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != r.listErr {
		r.cfg.Logger.Error("listing leftovers failed", "err", err)
	}
	r.listErr = text
}

// releaseDue starts the due releases and returns the next due time, or zero.
func (r *Releaser) releaseDue(ctx context.Context) (next time.Time) {
	r.mu.Lock()
	due := r.queue.due(time.Now())
	r.mu.Unlock()
	for _, uid := range due {
		r.begin(ctx, uid)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next, _ = r.queue.next(time.Now())
	return next
}

// begin starts the release of a pod that is not in use, up to the limit of parallel releases.
func (r *Releaser) begin(ctx context.Context, uid types.UID) {
	r.mu.Lock()
	full := r.queue.running >= r.queue.parallel
	_, still := r.queue.pods[uid] // a listing may have ended in between
	r.mu.Unlock()
	if full || !still {
		return
	}
	end, ok := r.take(uid)
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.queue.pods[uid]
	switch {
	case p == nil && ok:
		end()
	case p == nil:
	case !ok:
		p.owned = true // until the next listing
	default:
		r.queue.begin(uid, time.Now())
		r.releases.Go("release of pod "+string(uid), func() { r.release(ctx, uid, end) })
	}
}

// take locks a pod that is not in use.
func (r *Releaser) take(uid types.UID) (end func(), ok bool) {
	err := run.Guard("ReleaserConfig.Try or Gone", func() error {
		var free bool
		if end, free = r.cfg.Try(uid); !free {
			return nil
		}
		defer func() {
			if !ok {
				end()
			}
		}()
		ok = r.cfg.Gone(uid)
		return nil
	})
	if err != nil {
		r.cfg.Logger.Error("a callback panicked", "podUID", uid, "err", err)
	}
	return end, ok
}

// release releases a pod and unlocks it.
func (r *Releaser) release(ctx context.Context, uid types.UID, end func()) {
	err := errGoexit
	defer func() { r.released(ctx, uid, err); r.ended.Wake() }()
	defer end()
	err = run.Guard("the release", func() error { return r.cfg.Release(ctx, uid) })
}

func (r *Releaser) released(ctx context.Context, uid types.UID, err error) {
	r.mu.Lock()
	stages := r.queue.pods[uid].stages
	changed := r.queue.end(uid, err, time.Now())
	r.mu.Unlock()
	switch {
	case err == nil:
		r.cfg.Logger.Info("leftovers of a pod released", "podUID", uid, "stages", stages)
	case changed && ctx.Err() == nil:
		r.cfg.Logger.Error("releasing leftovers of a pod failed, will retry", "podUID", uid, "err", err)
	}
}

// Leftover is a pod that had leftovers at the last scan.
type Leftover struct {
	UID types.UID
	// Stages are the names of the stages with resources of the pod, in the order of the List. It
	// is empty if only ReleaserConfig.Others returned the pod.
	Stages []string
	// Since is the time at which the Releaser first found the pod.
	Since time.Time
	// Owned is true if a part of the agent used the pod at the last scan.
	Owned bool
	// CallSince is the start of the running release, zero without one.
	CallSince time.Time
	// LastError is the error of the last release, at LastErrorAt.
	LastError   error
	LastErrorAt time.Time
	// NextRetry is the time of the next attempt, zero if none is planned.
	NextRetry time.Time
}

// Leftovers returns the leftovers of the last scan, sorted by UID.
func (r *Releaser) Leftovers() []Leftover {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Leftover, 0, len(r.queue.pods))
	for _, uid := range slices.Sorted(maps.Keys(r.queue.pods)) {
		p := r.queue.pods[uid]
		l := Leftover{
			UID: uid, Stages: p.stages, Since: p.found, Owned: p.owned, CallSince: p.began,
			LastError: p.err, LastErrorAt: p.errAt,
		}
		if p.waits() {
			l.NextRetry = p.notBefore
		}
		out = append(out, l)
	}
	return out
}

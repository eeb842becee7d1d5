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
	// List is what is released. Required.
	List *List
	// Try takes the pod's turn, so that nobody else works on the pod until end is
	// called; false if somebody does. It answers at once. Required.
	Try func(uid types.UID) (end func(), ok bool)
	// Gone tells, within the pod's turn, that nobody needs anything of the pod any
	// more: no source names it, no worker has it, nothing of it runs, and every Sink
	// has its last status. It is false as long as any of that is unknown, as it is
	// until the sources and the runtime were read. It answers from memory. Required.
	Gone func(uid types.UID) bool

	// Others names pods of which something is left that is no stage's, such as dead
	// containers. It answers from memory. Nil means none.
	Others func() []types.UID
	// Release releases everything of a pod, within its turn. Whatever it does besides
	// the stages bounds its own waits. Nil means List.Release with Stopped, and then
	// with Gone.
	Release func(ctx context.Context, uid types.UID) error

	// Rest is the pause after a failed release until the next attempt. Zero means 1 s.
	Rest time.Duration
	// ShutdownTimeout is how long Run waits, when it ends, for what ignores its
	// context. Zero means 10 s.
	ShutdownTimeout time.Duration
	// Logger is told what was released, and what could not be. Nil means none.
	Logger *slog.Logger
}

// parallel is the largest number of pods that are released at a time.
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

// Releaser releases what has leftovers and no owner: what an agent that was killed has
// left, and what a worker could not release before it ended. Use NewReleaser. Methods
// are safe for concurrent use.
type Releaser struct {
	cfg      ReleaserConfig
	woken    run.Signal // a listing is wanted
	ended    run.Signal // of a listing, or a release
	releases run.Group

	mu      sync.Mutex
	ran     bool
	queue   queue
	listing bool
	again   bool   // woken while listing
	listErr string // that was logged last
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

// Wake has the Releaser look for leftovers. It never blocks. Housekeeping calls it:
// whatever nobody owns any more is found then.
func (r *Releaser) Wake() { r.woken.Wake() }

// Run releases until ctx ends; it looks once at its beginning, and when it is woken.
// What fails is logged when the error changes, and tried again after Config.Rest. When
// ctx has ended it waits for what runs, that of the List included; what ignores its
// context is named in the error, which wraps ErrShutdownTimeout. A second Run is
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
	err := leftRunning(r.releases.Wait(r.cfg.ShutdownTimeout), r.cfg.ShutdownTimeout)
	return errors.Join(err, r.cfg.List.Wait(max(0, time.Until(end))))
}

// wait waits for something to do.
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

// list begins a listing, or has the one that runs repeated: it may have passed by what
// has changed since.
func (r *Releaser) list(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = r.listing
	if r.listing {
		return
	}
	r.listing = true
	r.releases.Go("looking for leftovers", func() {
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
		r.cfg.Logger.Error("cannot tell what all pods have left", "err", err)
	}
	r.listErr = text
}

// releaseDue begins to release the pods whose turn it is, and returns when the next
// one is due; zero when none rests.
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

// begin releases a pod that nobody owns, unless enough are being released.
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

// take takes the turn of a pod that is gone.
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
		r.cfg.Logger.Error("cannot tell whether a pod is gone", "podUID", uid, "err", err)
	}
	return end, ok
}

// release releases a pod, and ends its turn.
func (r *Releaser) release(ctx context.Context, uid types.UID, end func()) {
	err := errGoexit
	defer func() { r.released(ctx, uid, err); r.ended.Wake() }()
	defer end()
	err = run.Guard("the release", func() error { return r.cfg.Release(ctx, uid) })
}

func (r *Releaser) released(ctx context.Context, uid types.UID, err error) {
	r.mu.Lock()
	stages := r.queue.pods[uid].stages
	news := r.queue.end(uid, err, time.Now())
	r.mu.Unlock()
	switch {
	case err == nil:
		r.cfg.Logger.Info("released what a pod had left", "podUID", uid, "stages", stages)
	case news && ctx.Err() == nil:
		r.cfg.Logger.Error("cannot release what a pod has left; trying again", "podUID", uid, "err", err)
	}
}

// Leftover is a pod of which something was there at the last look.
type Leftover struct {
	UID types.UID
	// Stages have something of it, as their names stand in the List. None means that
	// only ReleaserConfig.Others named it.
	Stages []string
	// Since is when the Releaser saw it first.
	Since time.Time
	// Owned tells that somebody needed the pod when it was last looked at.
	Owned bool
	// CallSince is when the release that runs now began, zero if none runs.
	CallSince time.Time
	// LastError is how the last release failed, at LastErrorAt.
	LastError   error
	LastErrorAt time.Time
	// NextRetry is when it is tried again, zero if nothing is planned.
	NextRetry time.Time
}

// Leftovers says what is left of which pods, as of the last look, by UID.
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

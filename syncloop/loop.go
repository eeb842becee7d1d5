package syncloop

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

// Config configures a Loop.
type Config struct {
	// Handler is called for all changes. Required.
	Handler Handler
	// Pods keeps the desired pods of each source. Required. Its sources emit PodsChanged.
	Pods PodSource
	// Sources are the event sources that the Loop runs. The keys are their names in logs and
	// Status. Optional.
	Sources map[string]EventSource
	// Health returns an error while pods cannot be handled, for example because the runtime is
	// unreachable or the observer lags. It must not block. During an error the loop pauses, and
	// events are kept. Optional: without it the loop never pauses.
	Health func() error
	// HousekeepingPeriod is the period of housekeeping. Default: 2 s.
	HousekeepingPeriod time.Duration
	// StallLimit is the longest duration of one step, or of a pause for an unhealthy runtime,
	// before CheckHealth fails. Default: 5 min. An agent passes max(5 min, 2 * resync interval).
	StallLimit time.Duration
	// ShutdownTimeout is the time that Run waits for sources and handler after its context is
	// done. Run's error names the ones that are still running. Default: 10 s.
	ShutdownTimeout time.Duration
	// Logger receives log records. Optional: without it they are discarded.
	Logger *slog.Logger
}

// The back-off of health checks and of failed sources.
const (
	unhealthyPauseMin = 100 * time.Millisecond
	unhealthyPauseMax = 5 * time.Second
	sourcePauseMin    = time.Second
	sourcePauseMax    = 30 * time.Second
	sourceStableAfter = time.Minute
)

// slowHousekeeping is the duration above which a housekeeping is logged.
const slowHousekeeping = time.Second

var (
	// ErrAlreadyRun is returned by a second Run of one Loop.
	ErrAlreadyRun = fields.AlreadyRun("syncloop")
	// ErrShutdownTimeout is wrapped by the error of Run if a source or the handler did not return in
	// time.
	ErrShutdownTimeout = run.ErrShutdownTimeout
)

// Loop receives events from its sources and calls a Handler, one call at a time. Use New. Its
// methods are safe for concurrent use.
type Loop struct {
	cfg   Config
	dirty *dirty
	state loopState
	// Only the goroutine of loop uses handled and retries.
	handled map[string]*handledSet // by source of pods
	retries *retries
}

// New returns a Loop, or an error that names missing and invalid fields. Run starts it.
func New(cfg Config) (*Loop, error) {
	f := fields.Of("syncloop: Config")
	f.Required("Handler", cfg.Handler)
	f.Required("Pods", cfg.Pods)
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		if name == "" {
			f.Refuse("Sources[%q]: the name must not be empty", name)
		}
		f.Required(fmt.Sprintf("Sources[%q]", name), cfg.Sources[name])
	}
	fields.Number(f, "HousekeepingPeriod", &cfg.HousekeepingPeriod, 2*time.Second)
	fields.Number(f, "StallLimit", &cfg.StallLimit, 5*time.Minute)
	fields.Number(f, "ShutdownTimeout", &cfg.ShutdownTimeout, 10*time.Second)
	fields.Default(&cfg.Health, func() error { return nil })
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	cfg.Sources = maps.Clone(cfg.Sources)
	l := &Loop{cfg: cfg, dirty: newDirty(), handled: map[string]*handledSet{}, retries: newRetries()}
	l.state.init(slices.Sorted(maps.Keys(cfg.Sources)))
	return l, nil
}

// Emit records an event that does not come from a source. It never blocks. Events before Run are
// kept. An event about a pod is ignored without a UID.
func (l *Loop) Emit(e Event) { l.dirty.add(e) }

// Run runs the sources and handles events until ctx is done, then waits for its goroutines. It
// returns nil after an orderly end. If a source or the handler ignores its context for
// ShutdownTimeout, the error names it and wraps ErrShutdownTimeout. Pods stay unchanged. Run may be called once; a second
// call returns ErrAlreadyRun.
func (l *Loop) Run(ctx context.Context) error {
	if !l.state.enter() {
		return ErrAlreadyRun
	}
	defer l.state.set(func(st *Status) { st.Running = false })
	var running run.Group
	for name, src := range l.cfg.Sources {
		running.Go("source "+name, func() { l.runSource(ctx, name, src) })
	}
	running.Go("handler", func() { l.loop(ctx) })
	<-ctx.Done()
	return run.StillRunning("syncloop", l.cfg.ShutdownTimeout, running.Wait(l.cfg.ShutdownTimeout))
}

func (l *Loop) loop(ctx context.Context) {
	ctx = context.WithValue(ctx, stepKey{}, &l.state)
	housekeeping := time.NewTicker(l.cfg.HousekeepingPeriod)
	defer housekeeping.Stop()
	retry := time.NewTimer(0)
	defer retry.Stop()
	for l.waitHealthy(ctx) {
		l.iterate(ctx)
		retry.Stop()
		if at := l.retries.at; !at.IsZero() {
			retry.Reset(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return
		case <-l.dirty.wake:
		case <-retry.C:
		case <-housekeeping.C:
			l.dirty.add(Event{Kind: Housekeeping})
		}
	}
}

// waitHealthy blocks until Health returns nil. It returns false when ctx is done.
func (l *Loop) waitHealthy(ctx context.Context) bool {
	pause, logged := unhealthyPauseMin, false
	for ctx.Err() == nil {
		err := l.watch("checking the health of the runtime", l.cfg.Health)
		if err == nil {
			l.state.set(func(st *Status) { st.Paused, st.PausedSince = nil, time.Time{} })
			if logged {
				l.cfg.Logger.Info("sync loop resumed: the runtime is healthy")
			}
			return true
		}
		l.state.pause(err, time.Now())
		// A runtime is briefly unhealthy after its start, so the first failure is not logged, and
		// a pause is logged once.
		if !logged && pause > unhealthyPauseMin {
			l.cfg.Logger.Warn("sync loop paused: the runtime is unhealthy", "err", err)
			logged = true
		}
		if !run.Sleep(ctx, pause) {
			return false
		}
		pause = min(2*pause, unhealthyPauseMax)
	}
	return false
}

// runSource runs a source until it returns nil or ctx is done.
func (l *Loop) runSource(ctx context.Context, name string, src EventSource) {
	pause := sourcePauseMin
	for {
		started := time.Now()
		l.state.source(name, func(s *SourceStatus) { s.Running, s.Since = true, started })
		err := run.Guard("event source "+name, func() error { return src.Run(ctx, l.dirty.add) })
		if ctx.Err() != nil {
			return
		}
		l.state.source(name, func(s *SourceStatus) {
			s.Running, s.Since = false, time.Now()
			if err != nil {
				s.Err = err
				s.Failures++
			}
		})
		if err == nil {
			l.cfg.Logger.Info("event source has ended", "source", name)
			return
		}
		if time.Since(started) >= sourceStableAfter {
			pause = sourcePauseMin
		}
		l.cfg.Logger.Error("event source failed", "source", name, "err", err, "retryIn", pause, "stack", run.StackOf(err))
		if !run.Sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, sourcePauseMax)
	}
}

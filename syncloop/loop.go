package syncloop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config configures a Loop.
type Config struct {
	// Handler is called for everything that happens. Required.
	Handler Handler
	// Pods is where the desired pods come from. Required. The Loop runs it.
	Pods PodSource
	// Sources are further sources of events; the Loop runs them. The keys name
	// them in logs and in Status. May be empty.
	Sources map[string]EventSource
	// Health tells why nothing can be handled now: the runtime does not answer,
	// the observer has fallen behind. It answers from memory. While it returns
	// an error nothing is handled and nothing is lost. nil means always healthy.
	Health func() error
	// SourcesReady tells whether every source of pods has been heard. While it
	// returns false there is no housekeeping. nil means always ready, which is
	// right for a Handler with a gate of its own, such as NewHandler's.
	SourcesReady func() bool
	// HousekeepingPeriod is the pause between two housekeepings; default 2 s.
	HousekeepingPeriod time.Duration
	// HousekeepingWarning is how long a housekeeping may take before it is
	// logged as slow; default 1 s.
	HousekeepingWarning time.Duration
	// StallLimit is how long one step, or a pause for lack of health, may last
	// before CheckHealth fails; default 5 min. An agent passes
	// max(5 min, 2 * resync interval).
	StallLimit time.Duration
	// ShutdownTimeout is how long Run waits, after its context is done, for
	// sources and handler to return; default 10 s. Those that have not are named
	// in Run's error.
	ShutdownTimeout time.Duration
	// Logger receives what a person should know. nil discards.
	Logger *slog.Logger
}

// The pauses of a loop whose runtime is unhealthy, and of a source that failed.
const (
	unhealthyPauseMin = 100 * time.Millisecond
	unhealthyPauseMax = 5 * time.Second
	sourcePauseMin    = time.Second
	sourcePauseMax    = 30 * time.Second
	sourceStableAfter = time.Minute
)

// podSourceName is the name of Config.Pods in logs, errors and Status.
const podSourceName = "pods"

// ErrRunning is returned by a second Run of one Loop.
var ErrRunning = errors.New("syncloop: the loop has been run before")

// Loop takes events from its sources and calls a Handler, one call at a time.
// Use New.
type Loop struct {
	cfg     Config
	sources map[string]EventSource
	dirty   *dirty
	state   loopState
}

// New returns a Loop that does nothing until Run.
func New(cfg Config) (*Loop, error) {
	if cfg.Handler == nil {
		return nil, errors.New("syncloop: Config.Handler is required")
	}
	if cfg.Pods == nil {
		return nil, errors.New("syncloop: Config.Pods is required")
	}
	for name, src := range cfg.Sources {
		if name == "" || name == podSourceName || src == nil {
			return nil, fmt.Errorf("syncloop: Config.Sources[%q]: needs a name other than %q and a source", name, podSourceName)
		}
	}
	if cfg.Health == nil {
		cfg.Health = func() error { return nil }
	}
	if cfg.SourcesReady == nil {
		cfg.SourcesReady = func() bool { return true }
	}
	setDefault(&cfg.HousekeepingPeriod, 2*time.Second)
	setDefault(&cfg.HousekeepingWarning, time.Second)
	setDefault(&cfg.StallLimit, 5*time.Minute)
	setDefault(&cfg.ShutdownTimeout, 10*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Loop{cfg: cfg, dirty: newDirty(), sources: map[string]EventSource{podSourceName: cfg.Pods}}
	maps.Copy(l.sources, cfg.Sources)
	l.state.init(slices.Sorted(maps.Keys(l.sources)))
	return l, nil
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// Emit records an event from outside of any source. It never blocks.
func (l *Loop) Emit(e Event) { l.dirty.add(e) }

// Run runs the sources and handles events until ctx is done, then waits for
// everything it started. It returns nil after an orderly end; if a source or the
// handler ignores its context for longer than ShutdownTimeout, the error names
// it. Pods are left as they are. Run may be called once.
func (l *Loop) Run(ctx context.Context) error {
	if !l.state.enter() {
		return ErrRunning
	}
	running := &crew{names: map[string]int{}}
	for name, src := range l.sources {
		running.start("source "+name, func() { l.runSource(ctx, name, src) })
	}
	running.start("handler", func() { l.loop(ctx) })
	<-ctx.Done()
	err := running.wait(l.cfg.ShutdownTimeout)
	l.state.leave()
	return err
}

// loop handles what is dirty until ctx is done.
func (l *Loop) loop(ctx context.Context) {
	housekeeping := time.NewTicker(l.cfg.HousekeepingPeriod)
	defer housekeeping.Stop()
	for l.waitHealthy(ctx) {
		l.iterate(ctx)
		select {
		case <-ctx.Done():
			return
		case <-l.dirty.wake:
		case <-housekeeping.C:
			l.dirty.add(Event{Kind: Housekeeping})
		}
	}
}

// waitHealthy returns true as soon as the health function is content, and false
// when ctx is done.
func (l *Loop) waitHealthy(ctx context.Context) bool {
	pause, told := unhealthyPauseMin, false
	for ctx.Err() == nil {
		err := l.cfg.Health()
		if err == nil {
			l.state.resume()
			if told {
				l.cfg.Logger.Info("runtime is healthy, handling pods again")
			}
			return true
		}
		l.state.pause(err, time.Now())
		// Whoever has just started is not healthy yet: only a pause that lasts is
		// worth a line, and only one.
		if !told && pause > unhealthyPauseMin {
			l.cfg.Logger.Warn("not handling pods while the runtime is unhealthy", "err", err)
			told = true
		}
		if !sleep(ctx, pause) {
			return false
		}
		pause = min(2*pause, unhealthyPauseMax)
	}
	return false
}

// iterate handles everything that is dirty now: changes of pods first, since
// syncs and housekeeping go by them.
func (l *Loop) iterate(ctx context.Context) {
	for _, source := range l.dirty.takeSources() {
		if ctx.Err() != nil {
			return
		}
		l.handleSource(ctx, source)
	}
	if syncs := l.dirty.takeSyncs(); len(syncs) > 0 && ctx.Err() == nil {
		l.step("syncing pods", func() { l.cfg.Handler.HandlePodSyncs(ctx, syncs) })
	}
	if l.dirty.takeHousekeeping() && ctx.Err() == nil && l.cfg.SourcesReady() {
		l.housekeep(ctx)
	}
}

// handleSource hands the changes of one source to the handler.
func (l *Loop) handleSource(ctx context.Context, source string) {
	for _, c := range l.cfg.Pods.Changes(source) {
		l.step(c.Op.String()+" from "+source, func() { l.handleChange(ctx, c) })
	}
	l.cfg.Pods.Handled(source)
}

func (l *Loop) handleChange(ctx context.Context, c Change) {
	if len(c.Pods) > 0 {
		l.cfg.Logger.Debug("pods changed", "op", c.Op.String(), "source", c.Source, "pods", len(c.Pods))
	}
	switch h := l.cfg.Handler; c.Op {
	case OpAdd:
		h.HandlePodAdditions(ctx, c.Pods)
	case OpUpdate, OpDelete:
		h.HandlePodUpdates(ctx, c.Pods)
	case OpRemove:
		h.HandlePodRemoves(ctx, c.Pods)
	case OpReconcile:
		h.HandlePodReconcile(ctx, c.Pods)
	default:
		l.cfg.Logger.Error("pods changed by an unknown operation", "op", uint8(c.Op), "source", c.Source)
	}
}

// housekeep calls HandlePodCleanups, and reports errors once per text.
func (l *Loop) housekeep(ctx context.Context) {
	var err error
	started := time.Now()
	l.step("housekeeping", func() { err = l.cfg.Handler.HandlePodCleanups(ctx) })
	if took := time.Since(started); took > l.cfg.HousekeepingWarning {
		l.cfg.Logger.Warn("housekeeping took long", "took", took)
	}
	if changed := l.state.housekept(started, err); !changed || ctx.Err() != nil {
		return
	}
	if err != nil {
		l.cfg.Logger.Error("housekeeping", "err", err)
		return
	}
	l.cfg.Logger.Info("housekeeping works again")
}

// step runs one call of the handler, visible in Status.
func (l *Loop) step(what string, call func()) {
	l.state.begin(what, time.Now())
	call()
	l.state.end(time.Now())
}

// runSource runs a source until it ends by itself or ctx is done.
func (l *Loop) runSource(ctx context.Context, name string, src EventSource) {
	pause := sourcePauseMin
	for {
		started := time.Now()
		l.state.sourceStarted(name, started)
		err := src.Run(ctx, l.dirty.add)
		if ctx.Err() != nil {
			return
		}
		l.state.sourceEnded(name, err, time.Now())
		if err == nil {
			l.cfg.Logger.Info("event source has ended", "source", name)
			return
		}
		if time.Since(started) >= sourceStableAfter {
			pause = sourcePauseMin
		}
		l.cfg.Logger.Error("event source failed", "source", name, "err", err, "retryIn", pause)
		if !sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, sourcePauseMax)
	}
}

// sleep waits and tells whether it waited to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// crew is a set of named goroutines.
type crew struct {
	wg    sync.WaitGroup
	mu    sync.Mutex
	names map[string]int
}

func (c *crew) start(name string, f func()) {
	c.count(name, 1)
	c.wg.Go(func() {
		defer c.count(name, -1)
		f()
	})
}

func (c *crew) count(name string, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names[name] += by; c.names[name] == 0 {
		delete(c.names, name)
	}
}

// wait waits for all; its error names those still running after the timeout.
func (c *crew) wait(timeout time.Duration) error {
	done := make(chan struct{})
	go func() {
		c.wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		c.mu.Lock()
		defer c.mu.Unlock()
		names := slices.Sorted(maps.Keys(c.names))
		return fmt.Errorf("syncloop: still running %s after the stop: %s", timeout, strings.Join(names, ", "))
	}
}

package pleg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg/observed"
)

const callTimeout = 2 * time.Minute

// Names of goroutines.
const (
	calls     = "calls of the Runtime"
	callbacks = "OnEvent or OnHealth"
)

// PanicError is the error of a call of the Runtime that panicked. Value is the argument of
// panic, which Unwrap returns if it is an error. Stack is the stack of the goroutine that
// panicked. A panic in a callback is only logged.
type PanicError = run.PanicError

// errGoexit is the error of a Runtime that ended the goroutine of a call.
var errGoexit = errors.New("the runtime called runtime.Goexit")

// runner is the state of Run: the only writer of the core's observations, and the owner of all
// goroutines.
type runner struct {
	*PLEG
	ctx     context.Context
	results chan result
	// closed is closed when Run no longer receives results.
	closed     chan struct{}
	goroutines run.Group
	// open has the running queries. mu guards it.
	open   map[*query]struct{}
	health error
	gauges gauges
	// failing is true if the last list failed. Only the first failure is a warning.
	failing bool
}

// Run observes until ctx is done, then stops all its work and returns nil. If a call of the
// Runtime or a callback does not return within ShutdownTimeout, Run returns an error that names
// it and wraps ErrShutdownTimeout. A second Run returns ErrAlreadyRun.
func (p *PLEG) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &runner{
		PLEG:    p,
		ctx:     ctx,
		results: make(chan result),
		closed:  make(chan struct{}),
		open:    map[*query]struct{}{},
		health:  ErrUnhealthy,
	}
	if !p.enter() {
		return ErrAlreadyRun
	}
	if p.cfg.OnEvent != nil || p.cfg.OnHealth != nil {
		r.goroutines.Go(callbacks, func() { p.deliver.run(ctx) })
	}
	r.loop()
	p.stop()
	return r.join()
}

// enter marks the PLEG as running, and reports false if Run was called before.
func (p *PLEG) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun {
		return false
	}
	p.begun, p.running = true, true
	close(p.runs)
	p.core.begin(time.Now())
	return true
}

// stop ends all waits and further processing of results.
func (p *PLEG) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	p.core.end(ErrNotRunning, time.Now())
}

// loop starts queries and processes their results until ctx is done.
func (r *runner) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wake := r.start()
		if wake.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(wake))
		}
		select {
		case <-r.ctx.Done():
			return
		case <-timer.C:
		case <-r.wake:
		case res := <-r.results:
			r.apply(res)
		}
	}
}

// start starts all due queries and returns the time of its next call.
func (r *runner) start() time.Time {
	now := time.Now()
	r.mu.Lock()
	var begun []*query
	q, wake := r.core.next(now)
	for ; q != nil; q, wake = r.core.next(now) {
		begun = append(begun, q)
		r.open[q] = struct{}{}
	}
	h, stale := r.core.health(), len(r.core.stale)
	r.mu.Unlock()
	guarded(r.log, "Metrics", func() { r.gauges.report(&r.cfg.Metrics, h, stale) })
	for _, q := range begun {
		r.goroutines.Go(calls, func() { r.execute(q) })
	}
	return earliest(wake, r.checkHealth(h, now))
}

// checkHealth reports a change of health, and returns the time of the next change without new
// results.
func (r *runner) checkHealth(h Health, now time.Time) time.Time {
	h.Running = true
	err := h.Err(now)
	if (err == nil) != (r.health == nil) {
		r.health = err
		r.deliver.setHealth(err)
		if err != nil {
			r.log.Warn("pod observation is unhealthy", "err", err)
		} else {
			r.log.Info("pod observation is healthy")
		}
	}
	if err != nil {
		return time.Time{}
	}
	// At the deadline itself the PLEG is still healthy.
	return h.Deadline.Add(time.Nanosecond)
}

// execute runs one query and sends its result, also after a panic or runtime.Goexit.
func (r *runner) execute(q *query) {
	res := result{query: q, err: errGoexit}
	defer func() {
		r.mu.Lock()
		delete(r.open, q)
		r.mu.Unlock()
		select {
		case r.results <- res:
		case <-r.closed:
		}
	}()
	res.err = run.Guard(q.String(), func() error { return r.call(&res) })
}

func (r *runner) call(res *result) (err error) {
	switch res.query.kind {
	case listAll:
		ctx, cancel := context.WithTimeout(r.ctx, callTimeout)
		defer cancel()
		res.pods, err = r.cfg.Runtime.ListPods(ctx)
	case inspectOne:
		ctx, cancel := context.WithTimeout(r.ctx, callTimeout)
		defer cancel()
		res.status, err = inspect(ctx, r.cfg.Runtime, res.query.uid)
	case streamEvents:
		if err = r.events.PodEvents(r.ctx, r.hint); err == nil {
			err = errors.New("the event stream ended")
		}
	}
	return err
}

// inspect calls PodStatus and returns an error for results that violate its contract.
func inspect(ctx context.Context, rt Runtime, uid types.UID) (*observed.Pod, error) {
	s, err := rt.PodStatus(ctx, uid)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, errors.New("the runtime returned no status and no error")
	case s.UID != "" && s.UID != uid:
		return nil, fmt.Errorf("the runtime returned the status of pod %s", s.UID)
	}
	return s, nil
}

// hint is the callback of the event stream.
func (r *runner) hint(uid types.UID) {
	if uid == "" || r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	r.core.hint(uid, time.Now())
	r.mu.Unlock()
	r.wake.Wake()
}

// apply processes one result and delivers its events.
func (r *runner) apply(res result) {
	if r.ctx.Err() != nil {
		return // the result of a cancelled call is no observation
	}
	r.mu.Lock()
	mode := r.core.stream.mode
	at := time.Now()
	events := r.core.apply(res, at)
	now := r.core.stream.mode
	r.mu.Unlock()
	if n := r.deliver.add(events); n > 0 {
		guarded(r.log, "Metrics.OnFold", func() { r.cfg.Metrics.OnFold(n) })
	}
	if mode != now {
		r.log.Info("pod observation mode changed", "from", mode, "to", now)
	}
	r.report(res)
	guarded(r.log, "Metrics", func() { r.cfg.Metrics.called(res, at) })
}

// report logs failures. In a row of failed lists only the first is a warning.
func (r *runner) report(res result) {
	switch res.query.kind {
	case listAll:
		if res.err != nil && !r.failing {
			r.logFailure(slog.LevelWarn, "listing pods failed", res.err)
		} else if res.err != nil {
			r.log.Debug("listing pods failed again", "err", res.err)
		}
		r.failing = res.err != nil
	case inspectOne:
		if res.err != nil {
			r.logFailure(slog.LevelWarn, "inspecting a pod failed", res.err, "podUID", res.query.uid)
		}
	case streamEvents:
		r.logFailure(slog.LevelInfo, "the event stream ended", res.err)
	}
}

// logFailure logs an error of the runtime. A panic has a stack.
func (r *runner) logFailure(level slog.Level, text string, err error, more ...any) {
	more = append(more, "err", err)
	if stack := run.StackOf(err); stack != "" {
		level, more = slog.LevelError, append(more, "stack", stack)
	}
	r.log.Log(r.ctx, level, text, more...)
}

// join waits for all goroutines, up to ShutdownTimeout, and returns an error that names the
// running ones.
func (r *runner) join() error {
	close(r.closed)
	running := r.goroutines.Wait(r.cfg.ShutdownTimeout)
	if len(running) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for q := range r.open {
		names = append(names, fmt.Sprintf("%s (for %v)", q, time.Since(q.started).Round(time.Millisecond)))
	}
	if slices.Contains(running, callbacks) {
		names = append(names, callbacks)
	}
	slices.Sort(names)
	return run.StillRunning("pleg", r.cfg.ShutdownTimeout, names)
}

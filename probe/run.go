package probe

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

var (
	// ErrShutdownTimeout is wrapped by the error of Run if a probe or a callback did not return
	// in time.
	ErrShutdownTimeout = run.ErrShutdownTimeout
	// ErrAlreadyRun is returned by a second Run.
	ErrAlreadyRun = fields.AlreadyRun("probe")
)

const (
	executions = "executions"
	callbacks  = "Config.OnChange"
)

const (
	minPause = time.Millisecond
	maxPause = 20 * time.Millisecond
)

// runner is the state of Manager.Run. It owns all goroutines.
type runner struct {
	*Manager
	ctx        context.Context
	goroutines run.Group
	// batch and views are reused in each pass.
	batch []*worker
	views []*v1.PodStatus
}

// Run executes probes until ctx is done. Then it cancels the executions, keeps all results, waits
// and returns nil. If probes or callbacks do not return within Config.ShutdownTimeout, Run returns
// an error that lists them and wraps ErrShutdownTimeout. A second Run returns ErrAlreadyRun.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	if m.started {
		m.mu.Unlock()
		return ErrAlreadyRun
	}
	m.started = true
	m.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &runner{Manager: m, ctx: ctx}
	r.goroutines.Go(callbacks, r.reportChanges)
	r.loop()
	cancel()
	return r.join()
}

func (r *runner) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for r.ctx.Err() == nil {
		var fire <-chan time.Time
		if next := r.runDue(); !next.IsZero() {
			timer.Reset(time.Until(next))
			fire = timer.C
		}
		select {
		case <-r.ctx.Done():
		case <-r.wake:
		case <-fire:
		}
	}
}

// runDue runs one round of every due worker, and returns the time of the next pass, or zero.
func (r *runner) runDue() time.Time {
	r.views = r.views[:0]
	r.collect(time.Now())
	var last types.UID
	for i, w := range r.batch {
		// Workers of one pod are often due together and share one call of Status.
		if i > 0 && w.pod.uid == last {
			r.views = append(r.views, r.views[i-1])
			continue
		}
		last = w.pod.uid
		r.views = append(r.views, r.cfg.Status(last))
	}
	removed, next := r.decide()
	r.reportRemoved(removed)
	return next
}

func (r *runner) collect(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batch = r.batch[:0]
	r.timer = now // a new worker need not wake Run, because a pass follows
	for w, ok := r.due.First(); ok && !w.at.After(now); w, ok = r.due.First() {
		r.due.Remove(w)
		w.phase = reading
		r.batch = append(r.batch, w)
	}
}

// decide applies the rounds of the batch. It returns the workers that ended and the time of the
// next pass.
func (r *runner) decide() (removed []*worker, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for i, w := range r.batch {
		if w.phase != reading {
			continue
		}
		step := w.decide(roundInput{
			pod: w.spec, container: w.container, status: r.views[i],
			leaving: w.pod.leaving, now: now, agentStart: r.cfg.agentStart,
		})
		if step.changed {
			r.noteChange(w)
		}
		switch step.verb {
		case execute:
			w.phase = queued
			w.pool.enqueue(w)
		case exit:
			removed = append(removed, w)
			r.detach(w, ended)
			if w.again {
				r.requestRound(w, now)
			}
		case wait:
			r.schedule(w, now)
		}
	}
	clear(r.batch)
	clear(r.views)
	for _, p := range r.pools {
		r.dispatch(p)
	}
	r.timer, r.rested = time.Time{}, now.Add(r.pause)
	if first, ok := r.due.First(); ok {
		r.timer = later(first.at, r.rested)
	}
	return removed, r.timer
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// schedule makes a worker idle until its time, or until now if another round is requested. The caller
// holds mu.
func (m *Manager) schedule(w *worker, now time.Time) {
	w.phase = idle
	wake := later(w.at, m.rested)
	if w.again {
		w.again, w.at, wake = false, now, now
	}
	m.due.Put(w)
	if m.timer.IsZero() || wake.Before(m.timer) {
		m.wake.Wake()
	}
}

// requestRound schedules a round of a worker now, or as soon as its current phase allows. The caller
// holds mu.
func (m *Manager) requestRound(w *worker, now time.Time) {
	switch w.phase {
	case idle, ended:
		w.again = true
		m.schedule(w, now)
	case reading, queued, executing:
		w.again = true
	case phaseRemoved:
	}
}

// join waits up to ShutdownTimeout for all goroutines. Its error lists those that have not
// returned.
func (r *runner) join() error {
	running := r.goroutines.Wait(r.cfg.ShutdownTimeout)
	if len(running) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, x := range r.inflight {
		names = append(names, fmt.Sprintf("%s for %v", x.worker.describe(), time.Since(x.began).Round(time.Millisecond)))
	}
	slices.Sort(names)
	if slices.Contains(running, callbacks) {
		names = append(names, callbacks)
	}
	return run.StillRunning("probe", r.cfg.ShutdownTimeout, names)
}

// noteChange records that the stored result of a worker has changed. The caller holds mu.
func (m *Manager) noteChange(w *worker) {
	m.log.Debug("Probe result changed", append(w.logged(), "containerID", w.id, "result", w.stored)...)
	if m.cfg.OnChange == nil || w.unreported {
		return
	}
	w.unreported = true
	m.changed = append(m.changed, w)
	m.changeNotes.Wake()
}

// reportChanges calls OnChange for changed results, one at a time.
func (r *runner) reportChanges() {
	for {
		change, ok := r.takeChange()
		if ok {
			r.cfg.OnChange(change)
			continue
		}
		select {
		case <-r.ctx.Done():
			return
		case <-r.changeNotes:
		}
	}
}

func (r *runner) takeChange() (Change, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.changed) == 0 || r.ctx.Err() != nil {
		return Change{}, false
	}
	w := r.changed[0]
	r.changed[0] = nil
	r.changed = r.changed[1:]
	w.unreported = false
	return Change{UID: w.pod.uid, Stored: w.result()}, true
}

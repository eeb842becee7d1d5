package probe

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
)

// phase is where a worker is.
type phase int8

const (
	// idle: in the heap of what is due.
	idle phase = iota
	// looking: Run reads the pod's status for it.
	looking
	// queued: it waits for a place in the budget.
	queued
	// executing: its Prober was called.
	executing
	// ended: it has nothing to do, and looks again when the pod is added again.
	ended
	// gone: the pod was removed, or does without it.
	gone
)

// worker looks after one probe of one container.
type worker struct {
	pod       *pod
	spec      *v1.Pod
	container *v1.Container
	probe     *v1.Probe
	pool      *pool
	rules     rules
	timing    Timing
	progress

	phase phase
	place run.Place // in Manager.due
	// tick is when the next regular round is.
	tick time.Time
	// at is when the worker looks next: at its tick, or before.
	at time.Time
	// previous and next in the queue of its pool.
	previous, next *worker

	// spread: the first round is put off, to spread the load.
	spread bool
	// triggered: a probe was asked for.
	triggered bool
	// again: somebody wanted it to look while it could not.
	again bool
	// slow: the last execution used up half of its timeout or more.
	slow bool
	// untold: nobody was told of the stored result.
	untold bool

	// counted: Metrics were told of an execution.
	counted bool

	// why it waits or has ended, "" while it probes.
	why string
	// due is when the execution that waits or runs was to begin.
	due time.Time
	// latest is the last execution.
	latest latest
}

// latest is what is kept of an execution, for people.
type latest struct {
	at      time.Time
	took    time.Duration
	late    time.Duration
	verdict Verdict
	text    string
}

func (w *worker) key() key {
	return key{uid: w.pod.uid, container: w.container.Name, typ: w.rules.typ}
}

func (w *worker) result() Stored {
	return Stored{Container: w.container.Name, ContainerID: w.id, Type: w.rules.typ, Result: w.stored}
}

// restore takes over what an earlier agent knew.
func (w *worker) restore() {
	for _, r := range w.pod.restored {
		if r.Container == w.container.Name && r.Type == w.rules.typ {
			w.progress = progress{id: r.ContainerID, stored: r.Result}
			w.onHold = r.Type == Startup || r.Type == Liveness && r.Result == Failure
		}
	}
}

// advance moves the tick, which has come, to the next one after now. The ticks keep
// their rhythm, however late a round was; those that were missed are left out.
func (w *worker) advance(now time.Time) {
	periods := now.Sub(w.tick)/w.timing.Period + 1
	w.tick = w.tick.Add(periods * w.timing.Period)
}

// decide takes one look and tells whether to execute now and whether the stored
// result has changed. Afterwards at is when to look again. It is pure.
func (w *worker) decide(in look) step {
	regular := !in.now.Before(w.tick)
	s := w.round(w.rules, in)
	triggered := w.triggered
	w.triggered, w.why = false, s.why
	switch s.verb {
	case execute:
		held := w.spread && s.older
		if !regular && (held || !triggered && !w.eager()) {
			s.verb = wait
			w.at = w.tick
			return s
		}
		if !regular {
			w.tick = in.now
		}
		w.due, w.tried, w.spread = w.tick, true, false
	case wait:
		if regular {
			w.advance(in.now)
			w.spread = false
		}
		w.at = w.tick
		if !s.until.IsZero() && s.until.Before(w.at) {
			w.at = in.now.Add(s.until.Sub(in.now)) // by the monotonic clock
		}
	case exit:
	}
	return s
}

// eager tells that the first probe of an instance does not wait for a tick.
// Liveness has no reason to hurry, unless the spec says when it begins.
func (w *worker) eager() bool {
	return !w.tried && (w.rules.typ != Liveness || w.rules.delay > 0)
}

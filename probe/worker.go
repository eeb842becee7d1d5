package probe

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
)

// phase is the position of a worker in its cycle.
type phase int8

const (
	// idle: in the heap of due times.
	idle phase = iota
	// reading: Run reads the pod's status for it.
	reading
	// queued: waits for a place in the budget.
	queued
	// executing: its Prober was called.
	executing
	// ended: finished, until the pod is added again.
	ended
	// phaseRemoved: removed.
	phaseRemoved
)

// worker runs one probe of one container.
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
	// tick is the time of the next regular round.
	tick time.Time
	// at is the time of the next round, at most tick.
	at             time.Time
	previous, next *worker

	// spread is true until the first round if that was delayed to spread the load.
	spread bool
	// triggered is true after Trigger.
	triggered bool
	// again requests another round after the current phase.
	again bool
	// slow is true if the last execution took at least half of its timeout.
	slow bool
	// unreported is true if OnChange has not received the stored result.
	unreported bool

	// counted is true if Metrics received an execution.
	counted bool

	// why is the reason to wait or to end, otherwise "".
	why string
	// due is the scheduled start of the queued or current execution.
	due    time.Time
	latest latest
}

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

func (w *worker) restore() {
	for _, r := range w.pod.restored {
		if r.Container == w.container.Name && r.Type == w.rules.typ {
			w.progress = progress{id: r.ContainerID, stored: r.Result}
			w.onHold = r.Type == Startup || r.Type == Liveness && r.Result == Failure
		}
	}
}

// advance moves the tick, which has passed, to the next one after now. Ticks keep their rhythm;
// missed ticks are skipped.
func (w *worker) advance(now time.Time) {
	periods := now.Sub(w.tick)/w.timing.Period + 1
	w.tick = w.tick.Add(periods * w.timing.Period)
}

// decide runs one round and returns whether to execute now and whether the stored result has
// changed. It sets at to the time of the next round. It has no side effects outside the worker.
func (w *worker) decide(in roundInput) step {
	regular := !in.now.Before(w.tick)
	s := w.round(w.rules, in)
	triggered := w.triggered
	w.triggered, w.why = false, s.why
	switch s.verb {
	case execute:
		held := w.spread && s.older
		if !regular && (held || !triggered && !w.startsEarly()) {
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
			w.at = in.now.Add(s.until.Sub(in.now)) // relative, for the monotonic clock
		}
	case exit:
	}
	return s
}

// startsEarly reports whether the first probe of an instance runs before the next tick. Liveness can
// wait unless the spec has an initial delay.
func (w *worker) startsEarly() bool {
	return !w.tried && (w.rules.typ != Liveness || w.rules.delay > 0)
}

package probe

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	v1 "k8s.io/api/core/v1"
)

// maxTries is how often a probe that cannot be carried out is tried in a row.
const maxTries = 3

// errGoexit is the error of a Prober that ended its goroutine.
var errGoexit = errors.New("the prober ended its goroutine")

// panicError is a panic of a Prober.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("the prober panicked: %v", e.value) }

// execution is one execution of a probe, all its tries.
type execution struct {
	worker *worker
	pool   *pool
	target Target
	// slow: it has a place among the slow ones.
	slow        bool
	due, began  time.Time
	ctx         context.Context
	cancel      context.CancelFunc
	result      Result
	err         error
	completedAt time.Time
}

// dispatch begins executions of one pool while there are places. The lock is held.
func (r *runner) dispatch(p *pool) {
	if r.stopping || r.ctx.Err() != nil {
		return
	}
	for w := p.take(); w != nil; w = p.take() {
		if r.inflight[w.key()] != nil {
			// What a worker of the same name began has not returned yet.
			p.release(w.slow)
			w.why = whyOccupied
			w.advance(time.Now())
			w.at = w.tick
			r.schedule(w, time.Now())
			continue
		}
		r.launch(w)
	}
}

const whyOccupied = "an execution from before the pod was removed has not returned"

// launch gives an execution a goroutine. The lock is held.
func (r *runner) launch(w *worker) {
	x := &execution{worker: w, pool: w.pool, slow: w.slow, due: w.due, began: time.Now(), err: errGoexit}
	x.ctx, x.cancel = context.WithCancel(r.ctx)
	w.phase = executing
	r.inflight[w.key()] = x
	go r.work(x)
}

// work executes and takes in what was found, however the Prober leaves it.
func (r *runner) work(x *execution) {
	defer r.conclude(x)
	x.target = x.worker.target(r.cfg.Status(x.worker.pod.uid))
	for try := 1; ; try++ {
		x.result, x.err = r.try(x)
		var panicked *panicError
		if x.err == nil || try == maxTries || x.ctx.Err() != nil || errors.As(x.err, &panicked) {
			return
		}
	}
}

// try calls the Prober once.
func (r *runner) try(x *execution) (res Result, err error) {
	ctx, cancel := context.WithTimeout(x.ctx, x.target.Timeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	return x.pool.prober.Probe(ctx, x.target)
}

// target is what the Prober is told. Nothing that it reads changes while the
// worker executes.
func (w *worker) target(status *v1.PodStatus) Target {
	t := Target{
		Pod: w.spec, Container: w.container, ContainerID: w.id,
		Probe: w.probe, Type: w.rules.typ, Timeout: w.timing.Timeout,
	}
	if status != nil {
		t.PodIP = status.PodIP
		if t.PodIP == "" && w.spec.Spec.HostNetwork {
			t.PodIP = status.HostIP
		}
	}
	return t
}

// conclude takes in an execution that has ended and lets the next one begin.
func (r *runner) conclude(x *execution) {
	x.completedAt = time.Now()
	r.report(x)
	r.mu.Lock()
	defer r.mu.Unlock()
	x.cancel()
	w := x.worker
	delete(r.inflight, w.key())
	x.pool.release(x.slow)
	if w.phase == executing {
		r.takeIn(x)
	}
	if r.stopping && len(r.inflight) == 0 {
		close(r.idle)
	}
	r.dispatch(x.pool)
	r.rouse()
}

// takeIn lets the worker learn from an execution. The lock is held.
func (r *runner) takeIn(x *execution) {
	w, now := x.worker, x.completedAt
	took := now.Sub(x.began)
	w.slow = 2*took >= w.timing.Timeout
	if r.ctx.Err() == nil { // what a cancelled call says is no outcome
		w.latest = latest{at: x.began, took: took, late: x.began.Sub(x.due), verdict: x.verdict(), text: x.text()}
		if x.err == nil && w.outcome(w.rules, x.result.Verdict) {
			r.note(w)
		}
	}
	w.advance(now)
	w.at = w.tick
	r.schedule(w, now)
}

// verdict is what the execution found, Unknown if it could not be carried out.
func (x *execution) verdict() Verdict {
	switch {
	case x.err != nil:
		return Unknown
	case x.result.Verdict == Unknown:
		return Failure
	default:
		return x.result.Verdict
	}
}

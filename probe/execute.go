package probe

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
)

// maxTries is how often a probe that cannot be carried out is tried in a row.
const maxTries = 3

// lingers is how long a goroutine waits for the next execution. Probes come each few seconds;
// what an hour of many left behind would stay for good.
const lingers = time.Minute

// errGoexit is the error of a Prober that ended its goroutine.
var errGoexit = errors.New("the prober ended its goroutine")

// execution is one execution of a probe, all its tries.
type execution struct {
	worker *worker
	pool   *pool
	// slow: it has a place among the slow ones.
	slow       bool
	due, began time.Time
	// cancel cuts off the try in progress, and cut tells that it was called; both
	// are under the lock.
	cancel context.CancelFunc
	cut    bool

	result Result
	err    error
	ended  time.Time
}

// dispatch begins executions of one pool while there are places. The lock is held.
func (r *runner) dispatch(p *pool) {
	for x := r.next(p); x != nil; x = r.next(p) {
		if p.spare > 0 {
			p.spare--
			p.jobs <- x // never full: there is room for the whole budget
			continue
		}
		r.goroutines.Go(executions, func() { r.serve(p, x) })
	}
}

// next takes the worker whose turn it is, nil if there is none. The lock is held.
func (r *runner) next(p *pool) *execution {
	if r.ctx.Err() != nil {
		return nil
	}
	for w := p.take(); w != nil; w = p.take() {
		if r.inflight[w.key()] == nil {
			x := &execution{worker: w, pool: p, slow: w.slow, due: w.due, began: time.Now(), err: errGoexit}
			w.phase = executing
			r.inflight[w.key()] = x
			return x
		}
		// What a worker of the same name began has not returned yet.
		p.release(w.slow)
		w.why = whyOccupied
		w.advance(time.Now())
		w.at = w.tick
		r.schedule(w, time.Now())
	}
	return nil
}

// serve is a goroutine of a pool: it executes as long as there is something to execute.
func (r *runner) serve(p *pool, x *execution) {
	for x != nil {
		if x = r.work(x); x == nil {
			x = r.job(p)
		}
	}
}

// job waits for something to execute; nil means that there was nothing for a while, or that
// Run ends.
func (r *runner) job(p *pool) *execution {
	select {
	case x := <-p.jobs:
		return x
	case <-time.After(lingers):
	case <-r.ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case x := <-p.jobs: // it was handed over before
		return x
	default:
		p.spare--
		return nil
	}
}

// work executes and takes in what was found, however the Prober leaves it. It
// returns what this goroutine is to do next, if there is something.
func (r *runner) work(x *execution) (next *execution) {
	returned := false
	defer func() { next = r.conclude(x, returned) }()
	target := x.worker.target(r.cfg.Status(x.worker.pod.uid))
	for try := 1; try <= maxTries && r.try(x, target); try++ {
	}
	returned = true
	return nil
}

// try calls the Prober once and tells whether to do so again.
func (r *runner) try(x *execution, target Target) (again bool) {
	ctx, cancel := context.WithTimeout(r.ctx, target.Timeout)
	defer cancel()
	r.mu.Lock()
	x.cancel = cancel
	if x.cut {
		cancel()
	}
	r.mu.Unlock()
	panicked := run.Guard("the prober", func() error {
		x.result, x.err = x.pool.prober.Probe(ctx, target)
		return nil
	})
	if panicked != nil {
		x.err = panicked
	}
	return x.err != nil && panicked == nil && r.ctx.Err() == nil && !r.wasCut(x)
}

func (r *runner) wasCut(x *execution) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return x.cut
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

// conclude takes in an execution that has ended. Unless the Prober ended the
// goroutine, it goes on with what conclude returns, or is spare.
func (r *runner) conclude(x *execution, returned bool) *execution {
	x.ended = time.Now()
	r.report(x)
	r.mu.Lock()
	defer r.mu.Unlock()
	w := x.worker
	delete(r.inflight, w.key())
	x.pool.release(x.slow)
	if w.phase == executing {
		r.takeIn(x)
	}
	if !returned {
		r.dispatch(x.pool)
		return nil
	}
	next := r.next(x.pool)
	if next == nil {
		x.pool.spare++
	}
	return next
}

// takeIn lets the worker learn from an execution. The lock is held.
func (r *runner) takeIn(x *execution) {
	w, now := x.worker, x.ended
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

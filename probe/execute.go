package probe

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
)

// maxTries is the maximum number of consecutive tries of a probe that returns errors.
const maxTries = 3

// idleLimit is the time that an idle goroutine waits for the next execution. Probes come every few
// seconds; without the limit the goroutines of a burst would stay forever.
const idleLimit = time.Minute

// errGoexit is the error of a Prober that called runtime.Goexit.
var errGoexit = errors.New("the prober called runtime.Goexit")

type execution struct {
	worker *worker
	pool   *pool
	// slow is true if it counts against the budget of slow probes.
	slow       bool
	due, began time.Time
	// cancel cancels the current try, and cut records that it was called. Both are guarded by mu.
	cancel context.CancelFunc
	cut    bool

	result Result
	err    error
	ended  time.Time
}

// dispatch starts executions of one pool while its budget allows it. The caller holds mu.
func (r *runner) dispatch(p *pool) {
	for x := r.next(p); x != nil; x = r.next(p) {
		if p.spare > 0 {
			p.spare--
			p.jobs <- x // never blocks: jobs has room for the whole budget
			continue
		}
		r.goroutines.Go(executions, func() { r.serve(p, x) })
	}
}

// next returns the next execution of a pool, or nil. The caller holds mu.
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
		// An execution of an earlier worker with the same key has not returned yet.
		p.release(w.slow)
		w.why = whyOccupied
		w.advance(time.Now())
		w.at = w.tick
		r.schedule(w, time.Now())
	}
	return nil
}

// serve executes probes until job returns nil.
func (r *runner) serve(p *pool, x *execution) {
	for x != nil {
		if x = r.work(x); x == nil {
			x = r.job(p)
		}
	}
}

// job waits for the next execution. It returns nil after idleLimit or at the end of Run.
func (r *runner) job(p *pool) *execution {
	select {
	case x := <-p.jobs:
		return x
	case <-time.After(idleLimit):
	case <-r.ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case x := <-p.jobs: // a job arrived at the same time
		return x
	default:
		p.spare--
		return nil
	}
}

// work executes x and records its outcome, even if the Prober panics or calls runtime.Goexit. It
// returns the next execution of this goroutine, or nil.
func (r *runner) work(x *execution) (next *execution) {
	returned := false
	defer func() { next = r.conclude(x, returned) }()
	target := x.worker.target(r.cfg.Status(x.worker.pod.uid))
	for try := 1; try <= maxTries && r.try(x, target); try++ {
	}
	returned = true
	return nil
}

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

// target returns the argument of the Prober. The fields that it reads do not change during an
// execution.
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

// conclude records an execution that has ended. It returns the next execution of the goroutine.
// With nil the goroutine is spare, or the Prober has ended it.
func (r *runner) conclude(x *execution, returned bool) *execution {
	x.ended = time.Now()
	r.report(x)
	r.mu.Lock()
	defer r.mu.Unlock()
	w := x.worker
	delete(r.inflight, w.key())
	x.pool.release(x.slow)
	if w.phase == executing {
		r.record(x)
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

// record updates the worker after an execution. The caller holds mu.
func (r *runner) record(x *execution) {
	w, now := x.worker, x.ended
	took := now.Sub(x.began)
	w.slow = 2*took >= w.timing.Timeout
	if r.ctx.Err() == nil { // a cancelled call has no outcome
		w.latest = latest{at: x.began, took: took, late: x.began.Sub(x.due), verdict: x.verdict(), text: x.text()}
		if x.err == nil && w.outcome(w.rules, x.result.Verdict) {
			r.noteChange(w)
		}
	}
	w.advance(now)
	w.at = w.tick
	r.schedule(w, now)
}

// verdict returns the outcome of the execution, or Unknown if it could not be carried out.
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

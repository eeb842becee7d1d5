package pleg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// runner is one Run: the only writer of the core's observations, and the owner of
// all goroutines.
type runner struct {
	*PLEG
	ctx     context.Context
	results chan result
	// gone is closed when nobody receives results any more.
	gone chan struct{}
	// open are the queries whose goroutine has not answered.
	open      map[*query]struct{}
	delivered chan struct{} // closed when the delivery has ended
	wg        sync.WaitGroup
	verdict   error
	gauges    gauges
	// failing tells that the last list failed: the first failure is a warning.
	failing bool
}

// Run observes until the context ends, then stops everything it started and
// returns nil. If a call into the Runtime or a callback does not return within
// ShutdownTimeout, Run returns an error that names it and leaves it behind. Run
// may be called again after it returned; the cache survives, but counts as
// incomplete until the next list.
func (p *PLEG) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &runner{
		PLEG:      p,
		ctx:       ctx,
		results:   make(chan result),
		gone:      make(chan struct{}),
		open:      map[*query]struct{}{},
		delivered: make(chan struct{}),
		verdict:   ErrUnhealthy,
	}
	if !p.enter() {
		return ErrAlreadyRunning
	}
	defer p.leave()
	r.startDelivery()
	r.loop()
	p.stop()
	return r.join()
}

// enter marks the PLEG as running; false if it is already.
func (p *PLEG) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.occupied {
		return false
	}
	p.occupied, p.running = true, true
	p.core.begin(time.Now())
	return true
}

// stop releases everybody who waits and takes in nothing more.
func (p *PLEG) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	p.core.end(ErrNotRunning, time.Now())
}

// leave makes room for another Run.
func (p *PLEG) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.occupied = false
}

// loop starts queries and takes in their results until the context ends.
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

// start begins every query that is due and returns when to come back.
func (r *runner) start() time.Time {
	now := time.Now()
	r.mu.Lock()
	var begun []*query
	q, wake := r.core.next(now)
	for ; q != nil; q, wake = r.core.next(now) {
		begun = append(begun, q)
	}
	h, stale := r.core.health(), len(r.core.stale)
	r.mu.Unlock()
	r.gauges.report(&r.cfg.Metrics, h, stale)
	for _, q := range begun {
		r.open[q] = struct{}{}
		r.wg.Go(func() { r.ask(q) })
	}
	return earliest(wake, r.judge(h, now))
}

// judge reports a change of the verdict on health and returns when it will next
// change by itself.
func (r *runner) judge(h Health, now time.Time) time.Time {
	h.Running = true
	err := h.Err(now)
	if (err == nil) != (r.verdict == nil) {
		r.verdict = err
		r.deliver.verdict(err)
		if err != nil {
			r.log.Warn("pod observation is unhealthy", "err", err)
		} else {
			r.log.Info("pod observation is healthy")
		}
	}
	if err != nil {
		return time.Time{}
	}
	// The deadline itself is still healthy.
	return h.Deadline.Add(time.Nanosecond)
}

// ask runs one query.
func (r *runner) ask(q *query) {
	res := result{query: q}
	switch q.kind {
	case listAll:
		ctx, cancel := context.WithTimeout(r.ctx, r.cfg.ListTimeout)
		res.pods, res.err = r.cfg.Runtime.ListPods(ctx)
		cancel()
	case inspectOne:
		ctx, cancel := context.WithTimeout(r.ctx, r.cfg.InspectTimeout)
		res.status, res.err = inspect(ctx, r.cfg.Runtime, q.uid)
		cancel()
	case streamEvents:
		res.err = r.events.PodEvents(r.ctx, r.hint)
		if res.err == nil {
			res.err = errors.New("the event stream ended")
		}
	}
	select {
	case r.results <- res:
	case <-r.gone:
	}
}

// inspect calls PodStatus and refuses answers that break its contract.
func inspect(ctx context.Context, rt Runtime, uid types.UID) (*PodStatus, error) {
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

// hint is what the event stream calls.
func (r *runner) hint(uid types.UID) {
	if uid == "" || r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	r.core.hint(uid, time.Now())
	r.mu.Unlock()
	poke(r.wake)
}

// apply takes in one result and hands its events over.
func (r *runner) apply(res result) {
	delete(r.open, res.query)
	if r.ctx.Err() != nil {
		return // what a cancelled call says is no observation
	}
	r.mu.Lock()
	mode := r.core.stream.mode
	at := time.Now()
	events := r.core.apply(res, at)
	now := r.core.stream.mode
	r.mu.Unlock()
	if n := r.deliver.add(events); n > 0 && r.cfg.Metrics.Folded != nil {
		r.cfg.Metrics.Folded(n)
	}
	if mode != now {
		r.log.Info("pod observation changes its mode", "from", mode, "to", now)
	}
	r.report(res)
	r.cfg.Metrics.called(res, at)
}

// report logs what went wrong. Of lists that fail in a row only the first is a
// warning.
func (r *runner) report(res result) {
	switch res.query.kind {
	case listAll:
		if res.err != nil && !r.failing {
			r.log.Warn("listing pods failed", "err", res.err)
		} else if res.err != nil {
			r.log.Debug("listing pods failed again", "err", res.err)
		}
		r.failing = res.err != nil
	case inspectOne:
		if res.err != nil {
			r.log.Warn("inspecting a pod failed", "uid", res.query.uid, "err", res.err)
		}
	case streamEvents:
		r.log.Info("the event stream ended", "err", res.err)
	}
}

func (r *runner) startDelivery() {
	if r.cfg.OnEvent == nil && r.cfg.OnHealth == nil {
		close(r.delivered)
		return
	}
	poke(r.deliver.wake) // what an earlier run left
	r.wg.Go(func() {
		defer close(r.delivered)
		r.deliver.run(r.ctx)
	})
}

// join waits for all goroutines, for ShutdownTimeout at most.
func (r *runner) join() error {
	timer := time.NewTimer(r.cfg.ShutdownTimeout)
	defer timer.Stop()
	for len(r.open) > 0 {
		select {
		case res := <-r.results:
			delete(r.open, res.query)
		case <-timer.C:
			close(r.gone)
			return r.stuck()
		}
	}
	close(r.gone)
	select {
	case <-r.delivered:
	case <-timer.C:
		return r.stuck()
	}
	r.wg.Wait()
	return nil
}

// stuck names what has not returned.
func (r *runner) stuck() error {
	var calls []string
	for q := range r.open {
		since := time.Since(q.started).Round(time.Millisecond)
		switch q.kind {
		case listAll:
			calls = append(calls, fmt.Sprintf("ListPods (for %v)", since))
		case inspectOne:
			calls = append(calls, fmt.Sprintf("PodStatus of pod %s (for %v)", q.uid, since))
		case streamEvents:
			calls = append(calls, fmt.Sprintf("PodEvents (for %v)", since))
		}
	}
	select {
	case <-r.delivered:
	default:
		calls = append(calls, "OnEvent or OnHealth")
	}
	slices.Sort(calls)
	return fmt.Errorf("pleg: not stopped after %v: %s", r.cfg.ShutdownTimeout, strings.Join(calls, ", "))
}

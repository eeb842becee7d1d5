package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/status"
)

// outage is how many calls have to fail in a row until the first that goes well
// makes the others be repeated at once.
const outage = 3

// turn makes the calls that a delivery needs, one after the other, and returns what
// the last one came to. A version that was set after it has to queue again.
func (t *target) turn(ctx context.Context, d *delivery) error {
	var once sync.Once
	giveUp := func() { once.Do(t.turnOver) }
	gone := false
	var cut error
	for more := true; more; {
		if cut = ctx.Err(); cut != nil {
			break
		}
		f := t.facts(d)
		t.w.mu.Lock()
		var c call
		if more = d.current(); more { // else it was forgotten
			c, more = d.next(f)
		}
		d.calling, d.began = c.kind, f.now
		behind := d.takeBehind()
		t.w.mu.Unlock()
		t.synced(behind)
		if !more {
			break
		}
		a, late := t.call(ctx, c, giveUp)
		t.w.mu.Lock()
		gone = d.done(c, a)
		behind = d.takeBehind()
		t.noteAnswer(a.err)
		more = !gone && !late && (c.kind == callGet || d.toDelete())
		failures, err := d.failures, d.err
		t.w.mu.Unlock()
		t.synced(behind)
		t.logFailure(ctx, c, failures, err)
	}
	giveUp()
	return cmp.Or(t.end(d, gone), cut)
}

// turnOver makes room for another turn.
func (t *target) turnOver() {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.turns--
	t.wake.Wake()
}

// end ends the turn of a delivery.
func (t *target) end(d *delivery, gone bool) error {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	d.busy = false
	delete(t.writing, d.entry.uid)
	if d.over != nil {
		close(d.over)
		d.over = nil
	}
	if gone {
		d.slot = slot{receives: d.receives, pod: d.pod, status: d.status, gone: true}
	}
	if e := t.w.entries[d.entry.uid]; e != nil {
		t.enqueue(e.deliveries[t.index])
		t.w.dropIfTold(e)
	}
	t.wake.Wake()
	return d.err
}

// call makes a call. When it ignores its deadline, the turn soon counts no more for
// the limit on parallel writes (giveUp), so that it holds up nobody else; late
// tells that this has happened.
func (t *target) call(ctx context.Context, c call, giveUp func()) (a answer, late bool) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	deaf := time.AfterFunc(callTimeout+callTimeout/10, giveUp)
	began := time.Now()
	a.err = run.Guard("sink "+t.name, func() (err error) {
		a.pod, err = t.ask(ctx, c)
		return err
	})
	a.now = time.Now()
	late = !deaf.Stop()
	if a.err != nil {
		a.err = fmt.Errorf("%v %v: %w", c.kind, c.ref, a.err)
	}
	if told := t.w.cfg.Metrics.OnCall; told != nil {
		told(t.name, c.kind.String(), a.now.Sub(began), a.err)
	}
	return a, late
}

// ask calls the sink.
func (t *target) ask(ctx context.Context, c call) (*v1.Pod, error) {
	switch c.kind {
	case callGet:
		return t.sink.Get(ctx, c.ref)
	case callPatch:
		return t.sink.Patch(ctx, c.ref, c.old, c.new)
	case callReceive:
		return nil, t.receiver.Receive(ctx, c.pod, c.new)
	default:
		return nil, t.sink.Delete(ctx, c.ref)
	}
}

// facts collects what a delivery has to know. Writer.mu is not held.
func (t *target) facts(d *delivery) facts {
	t.w.mu.Lock()
	pod := d.pod
	t.w.mu.Unlock()
	f := facts{now: time.Now(), mirrors: t.mirrors}
	if t.w.cfg.Pod != nil {
		f.pod = t.w.cfg.Pod(d.entry.uid)
	}
	if t.mirrors && podfacts.IsStatic(pod) {
		f.mirror = t.w.cfg.Mirror(d.entry.uid)
	}
	if t.w.cfg.MayStillRun != nil {
		f.mayStillRun = t.w.cfg.MayStillRun(d.entry.uid)
	}
	return f
}

// noteAnswer notes whether the sink answers. When it does again after an outage,
// what failed is repeated at once. Writer.mu is held.
func (t *target) noteAnswer(err error) {
	if err != nil && !errors.Is(err, status.ErrNotFound) && !errors.Is(err, status.ErrConflict) {
		t.failures++
		return
	}
	if t.failures >= outage {
		t.hurryAll()
	}
	t.failures = 0
}

func (t *target) synced(behind time.Duration) {
	if behind > 0 && t.w.cfg.Metrics.OnSynced != nil {
		t.w.cfg.Metrics.OnSynced(t.name, behind)
	}
}

// logFailure logs the first of several failures in a row as a warning, and a panic
// with its stack.
func (t *target) logFailure(ctx context.Context, c call, failures int, err error) {
	if err == nil {
		return
	}
	log := t.w.cfg.Logger.With("sink", t.name, "pod", c.ref.String(), "err", err)
	switch stack := run.StackOf(err); {
	case stack != "":
		log.Error("the sink of statuses panicked", "stack", stack)
	case ctx.Err() != nil:
	case failures == 1:
		log.Warn("status not written")
	default:
		log.Debug("status not written", "failures", failures)
	}
}

package writer

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
)

// write makes the calls of a delivery in sequence, and returns the error of the last one. A
// status that is set afterwards must be queued again.
func (t *target) write(ctx context.Context, d *delivery) (err error) {
	release := sync.OnceFunc(t.release)
	for more := true; more; {
		if err = ctx.Err(); err != nil {
			break
		}
		var c call
		if c, more = t.next(d); more {
			r, late := t.call(ctx, c, release)
			more = t.record(ctx, d, c, r) && !late
		}
	}
	release()
	if onSynced := t.w.cfg.Metrics.OnSynced; d.behind > 0 && onSynced != nil {
		onSynced(t.name, d.behind)
	}
	return cmp.Or(t.end(d), err)
}

// next returns the next call of a delivery. A forgotten pod has none.
func (t *target) next(d *delivery) (c call, ok bool) {
	f := t.facts(d.entry.uid)
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if d.current() {
		return d.next(f)
	}
	return c, false
}

// record records the result of a call and reports whether the write continues.
func (t *target) record(ctx context.Context, d *delivery, c call, r result) (more bool) {
	t.w.mu.Lock()
	more, err := d.done(c, r)
	failures := d.failures
	t.trackHealth(r.err)
	t.w.mu.Unlock()
	t.logFailure(ctx, c, failures, err)
	return more
}

// release frees the write's place in the limit on parallel writes.
func (t *target) release() {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.writes--
	t.wake.Wake()
}

func (t *target) end(d *delivery) error {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	d.flight = idle
	delete(t.writing, d.entry.uid)
	if d.ended != nil {
		close(d.ended)
		d.ended = nil
	}
	t.endDeletion(d)
	if e := t.w.entries[d.entry.uid]; e != nil {
		t.enqueue(e.deliveries[t.index])
		t.w.dropIfAccepted(e)
	}
	t.wake.Wake()
	return d.err
}

// call makes a call. If the call ignores its deadline, release is called soon after, so that the
// write does not count towards the limit and delays no other pod; late reports that.
func (t *target) call(ctx context.Context, c call, release func()) (r result, late bool) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began := time.Now()
	end := t.calls.Begin(fmt.Sprintf("%v of pod %v since %s", c.kind, c.ref, began.UTC().Format(time.RFC3339)))
	defer end()
	overdue := time.AfterFunc(callTimeout+callTimeout/10, release)
	r.err = run.Guard("sink "+t.name, func() (err error) {
		r.pod, err = t.request(ctx, c)
		return err
	})
	r.now = time.Now()
	late = !overdue.Stop()
	if r.err != nil {
		r.err = fmt.Errorf("%v %v: %w", c.kind, c.ref, r.err)
	}
	if onCall := t.w.cfg.Metrics.OnCall; onCall != nil {
		onCall(t.name, c.kind.String(), r.now.Sub(began), r.err)
	}
	return r, late
}

func (t *target) request(ctx context.Context, c call) (*v1.Pod, error) {
	switch c.kind {
	case getting:
		return t.sink.Get(ctx, c.ref)
	case patching:
		return t.sink.Patch(ctx, c.ref, c.old, c.new)
	case receiving:
		return nil, t.receiver.Receive(ctx, c.pod, c.new)
	}
	if t.deleter != nil {
		return nil, t.deleter.ReceiveDeletion(ctx, c.pod)
	}
	return nil, t.sink.Delete(ctx, c.ref)
}

func (t *target) facts(uid types.UID) facts {
	f, cfg := facts{now: time.Now()}, &t.w.cfg
	if cfg.Pod != nil {
		f.pod = cfg.Pod(uid)
	}
	if t.mirrors {
		f.mirror = cfg.Mirror(uid)
	}
	if cfg.MayStillRun != nil {
		f.mayStillRun = cfg.MayStillRun(uid)
	}
	return f
}

// logFailure logs the first of several failures in a row as a warning, and a panic with its
// stack.
func (t *target) logFailure(ctx context.Context, c call, failures int, err error) {
	if err == nil {
		return
	}
	log := t.w.cfg.Logger.With("sink", t.name, "pod", c.ref.Namespace+"/"+c.ref.Name, "podUID", c.ref.UID, "err", err)
	switch stack := run.StackOf(err); {
	case stack != "":
		log.Error("Status sink panicked", "stack", stack)
	case ctx.Err() != nil:
	case failures == 1:
		log.Warn("Status not written")
	default:
		log.Debug("Status not written", "failures", failures)
	}
}

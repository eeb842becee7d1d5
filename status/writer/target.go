package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/status"
)

// outage is how many calls have to fail in a row until the first that goes well
// makes the others be repeated at once.
const outage = 3

// target is a sink with all that is under way to it. Nothing of it is shared with
// the other sinks but Writer.mu, which is never held during a call.
type target struct {
	w        *Writer
	index    int
	name     string
	sink     status.Sink
	receiver status.Receiver // nil: the sink is none
	mirrors  bool
	wake     run.Signal

	// What follows is guarded by Writer.mu.

	// writing are the deliveries with a turn in progress, also those of pods that
	// were forgotten since: two turns of a pod must not overlap.
	writing map[types.UID]*delivery
	queue   queue
	// turns is how many turns take part in the limit on parallel writes.
	turns int
	// failures counts the failed calls since the last one that went well.
	failures int
}

func newTarget(w *Writer, index int, s NamedSink) *target {
	t := &target{
		w: w, index: index, name: s.Name, sink: s.Sink,
		wake: run.NewSignal(), writing: map[types.UID]*delivery{}, queue: newQueue(),
	}
	t.receiver, _ = s.Sink.(status.Receiver)
	t.mirrors = s.Mirrors && t.receiver == nil
	return t
}

// run writes until ctx ends.
func (t *target) run(ctx context.Context) error {
	calls, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	resync := time.NewTicker(t.w.cfg.Resync)
	defer resync.Stop()
	var turns sync.WaitGroup
	for ctx.Err() == nil {
		var due <-chan time.Time
		until := t.dispatch(calls, &turns)
		timer := time.NewTimer(time.Until(until))
		if !until.IsZero() {
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-t.wake:
		case <-due:
		case <-resync.C:
			t.resync()
		}
		timer.Stop()
	}
	limit := time.NewTimer(t.w.cfg.ShutdownTimeout)
	defer limit.Stop()
	if t.receiver != nil {
		t.last(calls, &turns)
	}
	stop()
	if err := t.join(limit.C); err != nil {
		return err
	}
	turns.Wait()
	return nil
}

// last hands a Receiver what it does not have yet, for half of ShutdownTimeout at
// most, and what has failed only once more.
func (t *target) last(ctx context.Context, turns *sync.WaitGroup) {
	ctx, cancel := context.WithTimeout(ctx, t.w.cfg.ShutdownTimeout/2)
	defer cancel()
	t.hurry()
	for ctx.Err() == nil {
		t.dispatch(ctx, turns)
		if len(t.inProgress()) == 0 {
			return
		}
		select {
		case <-t.wake:
		case <-ctx.Done():
		}
	}
}

// join waits for the turns in progress until limit.
func (t *target) join(limit <-chan time.Time) error {
	for len(t.inProgress()) > 0 {
		select {
		case <-t.wake:
		case <-limit:
			return fmt.Errorf("writer: sink %s: %w (%v): %s", t.name, ErrShutdownTimeout, t.w.cfg.ShutdownTimeout, strings.Join(t.inProgress(), ", "))
		}
	}
	return nil
}

// inProgress names the calls in progress.
func (t *target) inProgress() (calls []string) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	for _, d := range t.writing {
		calls = append(calls, fmt.Sprintf("%v of pod %v (for %v)", d.calling, d.ref, time.Since(d.began).Round(time.Millisecond)))
	}
	slices.Sort(calls)
	return calls
}

// enqueue gives a delivery the place in the queue that it should have. Writer.mu is
// held.
func (t *target) enqueue(d *delivery) {
	u, at, ok := d.due()
	if !ok || !d.current() {
		t.queue.remove(&d.waits)
		return
	}
	since := d.since
	if since.IsZero() {
		since = time.Now() // it is not about a change
	}
	t.queue.put(&d.waits, u, since, at)
	t.wake.Wake()
}

// dispatch begins as many turns as may take place. It returns when the next one
// can begin, if that is a matter of time.
func (t *target) dispatch(ctx context.Context, turns *sync.WaitGroup) (until time.Time) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	var blocked []*delivery
	for t.turns < t.w.cfg.MaxParallelWrites && ctx.Err() == nil {
		var p *place
		if p, until = t.queue.pick(time.Now()); p == nil {
			break
		}
		d := p.owner
		if t.writing[d.entry.uid] != nil {
			blocked = append(blocked, d) // the turn of one that was forgotten
			continue
		}
		t.begin(d)
		turns.Go(func() { t.turn(ctx, d) })
	}
	for _, d := range blocked {
		t.queue.put(&d.waits, urgentDetail, d.since, time.Now().Add(t.w.cfg.RetryBackoff))
	}
	return until
}

// begin begins a turn. Writer.mu is held.
func (t *target) begin(d *delivery) {
	t.queue.remove(&d.waits)
	d.busy, d.began = true, time.Now()
	t.writing[d.entry.uid] = d
	t.turns++
}

// flush has a turn in the caller's goroutine, after the one in progress.
func (t *target) flush(ctx context.Context, uid types.UID) error {
	for {
		t.w.mu.Lock()
		e := t.w.entries[uid]
		if e == nil || !e.set {
			t.w.mu.Unlock()
			return nil
		}
		busy := t.writing[uid]
		if busy == nil {
			d := e.deliveries[t.index]
			d.flush()
			t.begin(d)
			t.w.mu.Unlock()
			return t.turn(ctx, d)
		}
		if busy.over == nil {
			busy.over = make(chan struct{})
		}
		over := busy.over
		t.w.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
			return fmt.Errorf("writer: sink %s: pod %s: %w", t.name, uid, ctx.Err())
		}
	}
}

// resync has every delivery looked at again that waits for something outside.
func (t *target) resync() {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	for _, e := range t.w.entries {
		d := e.deliveries[t.index]
		d.tick()
		t.enqueue(d)
		t.w.dropIfTold(e)
	}
}

// hurry has everything written at once that waits for a pause to end.
func (t *target) hurry() {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.hurryAll()
}

func (t *target) hurryAll() {
	for _, e := range t.w.entries {
		d := e.deliveries[t.index]
		d.hurry()
		t.enqueue(d)
	}
}

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
		gone = d.done(c, a, t.w.limits)
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
	limit := t.w.cfg.WriteTimeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	deaf := time.AfterFunc(limit+limit/10, giveUp)
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
	if told := t.w.cfg.Metrics.Call; told != nil {
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
	if behind > 0 && t.w.cfg.Metrics.Synced != nil {
		t.w.cfg.Metrics.Synced(t.name, behind)
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

func (t *target) observe(pod *v1.Pod) {
	d := t.observed(pod)
	if d == nil {
		return
	}
	f := t.facts(d)
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	d.aim(f)
	d.slot.observed(pod)
	t.enqueue(d)
}

// observed finds the delivery of a pod that was seen at the sink. A mirror that
// cannot be translated yet is found by its name.
func (t *target) observed(pod *v1.Pod) *delivery {
	uid := t.w.translate(pod.UID)
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if e := t.w.entries[uid]; e != nil && e.pod != nil {
		return e.deliveries[t.index]
	}
	if !t.mirrors || !podfacts.IsMirror(pod) {
		return nil
	}
	for _, e := range t.w.entries {
		if e.pod != nil && podfacts.IsStatic(e.pod) && mirrorOf(pod, e.pod) {
			return e.deliveries[t.index]
		}
	}
	return nil
}

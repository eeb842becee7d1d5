package writer

import (
	"context"
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

// target is a sink with all that is under way to it. Nothing of it is shared with
// the other sinks but Writer.mu, which is never held during a call.
type target struct {
	w        *Writer
	index    int
	name     string
	sink     status.Sink
	receiver status.Receiver // nil: the sink is none
	mirrors  bool
	origin   bool
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
	t.origin = s.Origin
	return t
}

// run writes until ctx ends.
func (t *target) run(ctx context.Context) error {
	calls, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ticks := time.NewTicker(resync)
	defer ticks.Stop()
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
		case <-ticks.C:
			t.resync()
		}
		timer.Stop()
	}
	limit := time.After(t.w.cfg.ShutdownTimeout)
	if t.receiver != nil {
		t.last(calls, &turns)
	}
	stop()
	if err := t.join(limit); err != nil {
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
	for t.turns < t.w.cfg.maxWrites && ctx.Err() == nil {
		var p *place
		if p, until = t.queue.pick(time.Now()); p == nil {
			break
		}
		d := p.owner
		if t.writing[d.entry.uid] != nil {
			continue // it is the turn of one that was forgotten, whose end queues this one
		}
		t.begin(d)
		turns.Go(func() { t.turn(ctx, d) })
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

// flush has a turn in the caller's goroutine, unless one that begins after the one in
// progress does the same.
func (t *target) flush(ctx context.Context, uid types.UID) error {
	var asked *delivery
	for {
		t.w.mu.Lock()
		e := t.w.entries[uid]
		if e == nil || !e.set {
			t.w.mu.Unlock()
			return nil
		}
		d, busy := e.deliveries[t.index], t.writing[uid]
		done := asked == d && !d.check && d.version == d.written
		if asked != d {
			d.flush()
			asked = d
		}
		if busy == nil {
			if done {
				t.w.mu.Unlock()
				return nil
			}
			d.flush()
			t.begin(d)
			t.w.mu.Unlock()
			return t.turn(ctx, d)
		}
		over := busy.waitOver()
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
	if !t.mirrors {
		return nil
	}
	for _, e := range t.w.entries {
		if e.pod != nil && podfacts.IsStatic(e.pod) && mirrorOf(pod, e.pod) {
			return e.deliveries[t.index]
		}
	}
	return nil
}

package writer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/status"
)

// outageFailures is the number of failed calls in a row after which a successful one ends the
// waits of all pods.
const outageFailures = 3

// target is a sink with its queue of writes. It shares only Writer.mu with other sinks, which is
// never locked during a call.
type target struct {
	w        *Writer
	index    int
	name     string
	sink     status.Sink
	receiver status.Receiver // nil if sink is no Receiver
	deleter  status.DeletionReceiver
	mirrors  bool
	origin   bool
	wake     run.Signal
	calls    run.Group // in progress

	// Writer.mu guards the fields below.

	// writing has the deliveries with a write in progress, including those of forgotten pods,
	// because two writes of a pod must not overlap.
	writing map[types.UID]*delivery
	queue   queue
	// deletions has the deletions that a DeletionReceiver has not accepted. They precede all writes
	// of the next pod with the UID.
	deletions map[types.UID]*delivery
	// writes counts towards the limit on parallel writes.
	writes   int
	failures int
}

// delivery is one pod's status for one target.
type delivery struct {
	slot
	entry  *entry
	target *target
	place  place
	ended  chan struct{} // closed when the current write ends; nil if no Flush waits for it
}

func newTarget(w *Writer, index int, s NamedSink) *target {
	t := &target{
		w: w, index: index, name: s.Name, sink: s.Sink, origin: s.Origin,
		wake: run.NewSignal(), writing: map[types.UID]*delivery{}, queue: newQueue(),
		deletions: map[types.UID]*delivery{},
	}
	t.receiver, _ = s.Sink.(status.Receiver)
	t.deleter, _ = s.Sink.(status.DeletionReceiver)
	t.mirrors = s.Mirrors && t.receiver == nil
	return t
}

func (t *target) newDelivery(e *entry) *delivery {
	return &delivery{entry: e, target: t, slot: slot{receives: t.receiver != nil, mirrors: t.mirrors, origin: t.origin}}
}

func (d *delivery) current() bool {
	return d.target.w.entries[d.entry.uid] == d.entry || d.target.deletions[d.entry.uid] == d
}

// blocked reports whether another write of the pod's UID must end first.
func (d *delivery) blocked() bool {
	deletion := d.target.deletions[d.entry.uid]
	return d.target.writing[d.entry.uid] != nil || deletion != nil && deletion != d
}

// run writes until ctx is done. Then a Receiver receives its missing statuses within half of
// ShutdownTimeout; failed calls are retried only once.
func (t *target) run(ctx context.Context) error {
	calls, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var writes sync.WaitGroup
	t.serve(ctx, calls, &writes, false)
	ends := time.Now().Add(t.w.cfg.ShutdownTimeout)
	if t.receiver != nil {
		last, cancel := context.WithTimeout(calls, t.w.cfg.ShutdownTimeout/2)
		defer cancel()
		t.w.mu.Lock()
		t.recovered()
		t.w.mu.Unlock()
		t.serve(last, last, &writes, true)
	}
	stop()
	if left := t.calls.Wait(time.Until(ends)); len(left) > 0 {
		return run.StillRunning("writer: sink "+t.name, t.w.cfg.ShutdownTimeout, left)
	}
	writes.Wait()
	return nil
}

// serve starts writes, with calls as their context, until ctx is done or, if untilIdle is true,
// no write is in progress.
func (t *target) serve(ctx, calls context.Context, writes *sync.WaitGroup, untilIdle bool) {
	for ctx.Err() == nil {
		until, busy := t.dispatch(calls, writes)
		if untilIdle && !busy {
			return
		}
		var timer <-chan time.Time
		if !until.IsZero() {
			timer = time.After(time.Until(until))
		}
		select {
		case <-ctx.Done():
		case <-t.wake:
		case <-timer:
		}
	}
}

// enqueue updates a delivery's place in the queue. The caller holds Writer.mu.
func (t *target) enqueue(d *delivery) {
	u, at, ok := d.schedule()
	if !ok || !d.current() {
		t.queue.remove(d)
		return
	}
	since := d.since
	if since.IsZero() {
		since = time.Now() // no change to write
	}
	t.queue.put(d, u, since, at)
	t.wake.Wake()
}

// dispatch starts the due writes up to the limit. It returns the time of the next write, or zero,
// and whether any write is in progress.
func (t *target) dispatch(ctx context.Context, writes *sync.WaitGroup) (until time.Time, busy bool) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	for t.writes < t.w.cfg.maxWrites && ctx.Err() == nil {
		var d *delivery
		if d, until = t.queue.pick(time.Now()); d == nil {
			break
		}
		if !d.blocked() { // otherwise the end of the current write queues it again
			t.begin(d)
			writes.Go(func() { _ = t.write(ctx, d) })
		}
	}
	return until, len(t.writing) > 0
}

// begin marks the start of a write. The caller holds Writer.mu.
func (t *target) begin(d *delivery) {
	t.queue.remove(d)
	d.flight, d.behind = between, 0
	t.writing[d.entry.uid] = d
	t.writes++
}

// flush writes in the caller's goroutine. It first waits for a write in progress, and returns
// without a write of its own if another write that started afterwards has written the status.
func (t *target) flush(ctx context.Context, uid types.UID) error {
	var requested *delivery
	for {
		t.w.mu.Lock()
		e := t.w.entries[uid]
		if deletion := t.deletions[uid]; deletion != nil && t.writing[uid] == nil {
			if err := t.flushDeletion(ctx, deletion); err != nil {
				return err
			}
			continue
		}
		if e == nil || !e.set {
			t.w.mu.Unlock()
			return nil
		}
		d, busy := e.deliveries[t.index], t.writing[uid]
		written := d == requested && !d.toWrite()
		if d != requested || busy == nil && !written {
			d.flush()
			requested = d
		}
		if busy == nil {
			if !written {
				t.begin(d)
			}
			t.w.mu.Unlock()
			if written {
				return nil
			}
			return t.write(ctx, d)
		}
		if busy.ended == nil {
			busy.ended = make(chan struct{})
		}
		ended := busy.ended
		t.w.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("writer: sink %s: pod %s: %w", t.name, uid, ctx.Err())
		}
	}
}

// trackHealth tracks the health of the sink. After an outage, the first successful call ends the
// waits of all pods. The caller holds Writer.mu.
func (t *target) trackHealth(err error) {
	if err != nil && !errors.Is(err, status.ErrNotFound) && !errors.Is(err, status.ErrConflict) {
		t.failures++
		return
	}
	if t.failures >= outageFailures {
		t.recovered()
	}
	t.failures = 0
}

// recovered ends the waits after failures. The caller holds Writer.mu.
func (t *target) recovered() {
	for _, d := range t.deletions {
		d.apply(sinkRecovered)
		t.enqueue(d)
	}
	for _, e := range t.w.entries {
		d := e.deliveries[t.index]
		d.apply(sinkRecovered)
		t.enqueue(d)
	}
}

func (t *target) observe(pod *v1.Pod) {
	uid := t.w.translate(pod.UID)
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if e := t.w.find(uid, pod, t.mirrors); e != nil {
		d := e.deliveries[t.index]
		d.observed(pod, time.Now())
		t.enqueue(d)
	}
}

// find returns the entry of a pod seen at a sink. A mirror without a translation is found by its
// name. The caller holds mu.
func (w *Writer) find(uid types.UID, pod *v1.Pod, mirrors bool) *entry {
	if e := w.entries[uid]; e != nil || !mirrors {
		return e
	}
	for _, e := range w.entries {
		if podfacts.IsStatic(e.pod) && mirrorOf(pod, e.pod) {
			return e
		}
	}
	return nil
}

package writer

import (
	"time"

	"github.com/podwright/podwright/internal/run"
)

// urgencyLead is the advantage of a delivery over a less urgent one, per level of urgency. It
// bounds every wait.
const urgencyLead = 10 * time.Second

// queue contains the deliveries that wait for a write. ready has the most urgent first and, among
// equally urgent deliveries, the longest wait first. later has the deliveries that are not yet
// due. Use newQueue.
type queue struct{ ready, later *run.Heap[*delivery] }

type place struct {
	ready, later run.Place
	order        time.Time
	at           time.Time
}

func newQueue() queue {
	return queue{
		ready: run.NewHeap(func(a, b *delivery) bool { return a.place.order.Before(b.place.order) }, func(d *delivery) *run.Place { return &d.place.ready }),
		later: run.NewHeap(func(a, b *delivery) bool { return a.place.at.Before(b.place.at) }, func(d *delivery) *run.Place { return &d.place.later }),
	}
}

// put adds or moves a delivery that has waited since the given time. at is the time of the write;
// zero means at once.
func (q *queue) put(d *delivery, u urgency, since, at time.Time) {
	q.remove(d)
	d.place.order, d.place.at = since.Add(time.Duration(u)*urgencyLead), at
	if at.IsZero() {
		q.ready.Put(d)
	} else {
		q.later.Put(d)
	}
}

func (q *queue) remove(d *delivery) {
	q.ready.Remove(d)
	q.later.Remove(d)
}

// pick removes and returns the next delivery that is due. Without one, until is the time of the
// next write, or zero.
func (q *queue) pick(now time.Time) (d *delivery, until time.Time) {
	next, waits := q.later.First()
	for ; waits && !next.place.at.After(now); next, waits = q.later.First() {
		q.later.Remove(next)
		q.ready.Put(next)
	}
	if d, ok := q.ready.First(); ok {
		q.ready.Remove(d)
		return d, time.Time{}
	}
	if waits {
		until = next.place.at
	}
	return nil, until
}

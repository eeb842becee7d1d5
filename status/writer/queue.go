package writer

import (
	"time"

	"github.com/podwright/podwright/internal/run"
)

// lead is by how much longer somebody may have waited and is still overtaken by
// whoever is more urgent by one step. So nobody waits forever.
const lead = 10 * time.Second

// queue holds who waits for a write: the more urgent first, and among those who
// are equally urgent the one that has waited longest. Those who may not be written
// yet wait aside until their time. Use newQueue.
type queue struct {
	ready, later *run.Heap[*place]
}

// place is somebody's place in the queue; the zero value is outside of it.
type place struct {
	owner          *delivery
	ready, later   run.Place
	urgency        urgency
	since, at, due time.Time
}

func newQueue() queue {
	return queue{
		ready: run.NewHeap(func(a, b *place) bool { return a.due.Before(b.due) }, func(p *place) *run.Place { return &p.ready }),
		later: run.NewHeap(func(a, b *place) bool { return a.at.Before(b.at) }, func(p *place) *run.Place { return &p.later }),
	}
}

// put gives p a place, or another one. since is since when it waits, at the moment
// before which it may not be picked; zero is at once.
func (q *queue) put(p *place, u urgency, since, at time.Time) {
	q.remove(p)
	p.urgency, p.since, p.at = u, since, at
	p.due = since.Add(time.Duration(u) * lead)
	if at.IsZero() {
		q.ready.Put(p)
	} else {
		q.later.Put(p)
	}
}

// remove takes p out, if it is in.
func (q *queue) remove(p *place) {
	q.ready.Remove(p)
	q.later.Remove(p)
}

// pick takes out who is to be written now. nil: nobody, and until is when somebody
// will be; zero is never.
func (q *queue) pick(now time.Time) (p *place, until time.Time) {
	next, waits := q.later.First()
	for waits && !next.at.After(now) {
		q.put(next, next.urgency, next.since, time.Time{})
		next, waits = q.later.First()
	}
	if p, ok := q.ready.First(); ok {
		q.ready.Remove(p)
		return p, time.Time{}
	}
	if waits {
		return nil, next.at
	}
	return nil, time.Time{}
}

package status

import (
	"container/heap"
	"time"
)

// fairness is one in how many picks goes to whoever has waited longest, however
// urgent. So nobody waits forever behind what is more urgent, and what is urgent
// waits at most one pick longer.
const fairness = 4

// queue holds who waits for a write: the more urgent first, and among those who
// are equally urgent the one that has waited longest. Those who may not be written
// yet wait aside until their time.
type queue struct {
	ready [urgencies]line
	later line
	picks int
}

// place is somebody's place in the queue; the zero value is outside of it.
type place struct {
	owner   *entry
	in      *line
	index   int
	urgency urgency
	since   time.Time
	at      time.Time
}

// put gives p a place, or another one. since is since when it waits, at the moment
// before which it may not be picked; zero is at once.
func (q *queue) put(p *place, u urgency, since, at time.Time) {
	q.remove(p)
	p.urgency, p.since, p.at = u, since, at
	p.in = &q.ready[u]
	if !at.IsZero() {
		p.in = &q.later
	}
	heap.Push(p.in, p)
}

// remove takes p out, if it is in.
func (q *queue) remove(p *place) {
	if p.in != nil {
		heap.Remove(p.in, p.index)
	}
}

// pick takes out who is to be written now. nil: nobody, and until is when somebody
// will be; zero is never.
func (q *queue) pick(now time.Time) (p *place, until time.Time) {
	for len(q.later) > 0 && !q.later[0].at.After(now) {
		p := q.later[0]
		q.put(p, p.urgency, p.since, time.Time{})
	}
	var first, longest *place
	for u := range q.ready {
		if len(q.ready[u]) == 0 {
			continue
		}
		head := q.ready[u][0]
		if first == nil {
			first = head
		}
		if longest == nil || head.since.Before(longest.since) {
			longest = head
		}
	}
	switch {
	case first != nil:
		if q.picks++; q.picks%fairness == 0 {
			first = longest
		}
		q.remove(first)
		return first, time.Time{}
	case len(q.later) > 0:
		return nil, q.later[0].at
	default:
		return nil, time.Time{}
	}
}

// line is a heap of places: by at for those who wait aside, else by since.
type line []*place

func (w line) Len() int { return len(w) }

func (w line) Less(i, j int) bool {
	if !w[i].at.Equal(w[j].at) {
		return w[i].at.Before(w[j].at)
	}
	return w[i].since.Before(w[j].since)
}

func (w line) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}

// Push implements heap.Interface.
func (w *line) Push(x any) {
	p := x.(*place)
	p.index = len(*w)
	*w = append(*w, p)
}

// Pop implements heap.Interface.
func (w *line) Pop() any {
	last := len(*w) - 1
	p := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	p.in = nil
	return p
}

package pleg

import (
	"time"

	"github.com/podwright/podwright/internal/run"
)

// schedule orders the pods to inspect: first pods with waiters, then by due time, then by order
// of entry.
type schedule struct {
	*run.Heap[*pod]
	count uint64
}

// position is a pod's place in the schedule.
type position struct {
	place  run.Place
	urgent bool
	due    time.Time // zero if urgent
	order  uint64    // of entry
}

func newSchedule() schedule {
	return schedule{Heap: run.NewHeap(
		func(a, b *pod) bool { return a.position.before(&b.position) },
		func(p *pod) *run.Place { return &p.position.place },
	)}
}

func (s *schedule) enter(p *pod, urgent bool, due time.Time) {
	if !p.position.place.In() {
		s.count++
		p.position.order = s.count
	}
	p.position.urgent, p.position.due = urgent, due
	s.Put(p)
}

// next returns the first due pod, or nil. In that case wake is the due time of the first pod, or
// zero.
func (s *schedule) next(now time.Time) (p *pod, wake time.Time) {
	first, ok := s.First()
	switch {
	case !ok:
		return nil, time.Time{}
	case !first.position.due.After(now):
		return first, time.Time{}
	default:
		return nil, first.position.due
	}
}

func (t *position) before(other *position) bool {
	switch {
	case t.urgent != other.urgent:
		return t.urgent
	case !t.due.Equal(other.due):
		return t.due.Before(other.due)
	default:
		return t.order < other.order
	}
}

package pleg

import (
	"container/heap"
	"time"
)

// schedule orders the pods that are to be inspected: those that somebody waits
// for first, then by when they are due, then by who asked first.
type schedule struct {
	h     waiting
	count uint64
}

// slot is a pod's place in the schedule.
type slot struct {
	index  int // in the heap, -1 when not in it
	urgent bool
	due    time.Time
	order  uint64 // of entering
}

// put enters the pod or moves it.
func (s *schedule) put(p *pod, urgent bool, due time.Time) {
	p.place.urgent, p.place.due = urgent, due
	if p.place.index >= 0 {
		heap.Fix(&s.h, p.place.index)
		return
	}
	s.count++
	p.place.order = s.count
	heap.Push(&s.h, p)
}

// remove takes the pod out, if it is in.
func (s *schedule) remove(p *pod) {
	if p.place.index >= 0 {
		heap.Remove(&s.h, p.place.index)
	}
}

// next returns the first pod that is due, nil when there is none; then wake is
// when there will be one, or zero.
func (s *schedule) next(now time.Time) (p *pod, wake time.Time) {
	if len(s.h) == 0 {
		return nil, time.Time{}
	}
	first := s.h[0]
	if first.place.urgent || !first.place.due.After(now) {
		return first, time.Time{}
	}
	return nil, first.place.due
}

// waiting implements heap.Interface.
type waiting []*pod

func (w waiting) Len() int { return len(w) }

func (w waiting) Less(i, j int) bool {
	a, b := &w[i].place, &w[j].place
	switch {
	case a.urgent != b.urgent:
		return a.urgent
	case !a.urgent && !a.due.Equal(b.due):
		return a.due.Before(b.due)
	default:
		return a.order < b.order
	}
}

func (w waiting) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].place.index, w[j].place.index = i, j
}

func (w *waiting) Push(x any) {
	p := x.(*pod)
	p.place.index = len(*w)
	*w = append(*w, p)
}

func (w *waiting) Pop() any {
	old := *w
	p := old[len(old)-1]
	old[len(old)-1] = nil
	p.place.index = -1
	*w = old[:len(old)-1]
	return p
}

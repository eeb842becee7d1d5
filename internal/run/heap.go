package run

import "container/heap"

// Place is the position of an item in a Heap. The zero value is outside of it.
type Place struct{ n int } // from 1

// In reports whether the item is in a heap.
func (p Place) In() bool { return p.n > 0 }

// Heap is a priority queue whose items store their position, so that each is in it once and can
// be moved and removed. Use NewHeap. It is not safe for concurrent use.
type Heap[T any] struct{ h places[T] }

// NewHeap returns an empty Heap. before reports whether a comes before b; place returns the
// Place of an item for this heap.
func NewHeap[T any](before func(a, b T) bool, place func(T) *Place) *Heap[T] {
	return &Heap[T]{places[T]{before: before, place: place}}
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.h.items) }

// First returns the first item, or false if the heap is empty.
func (h *Heap[T]) First() (first T, ok bool) {
	if len(h.h.items) == 0 {
		return first, false
	}
	return h.h.items[0], true
}

// Put adds an item, or moves it to its new position.
func (h *Heap[T]) Put(x T) {
	if at := h.h.place(x); at.In() {
		heap.Fix(&h.h, at.n-1)
		return
	}
	heap.Push(&h.h, x)
}

// Remove removes an item, if it is in the heap.
func (h *Heap[T]) Remove(x T) {
	if at := h.h.place(x); at.In() {
		heap.Remove(&h.h, at.n-1)
	}
}

type places[T any] struct {
	items  []T
	before func(a, b T) bool
	place  func(T) *Place
}

func (p *places[T]) Len() int           { return len(p.items) }
func (p *places[T]) Less(i, j int) bool { return p.before(p.items[i], p.items[j]) }

func (p *places[T]) Swap(i, j int) {
	p.items[i], p.items[j] = p.items[j], p.items[i]
	p.place(p.items[i]).n, p.place(p.items[j]).n = i+1, j+1
}

// Push implements heap.Interface.
func (p *places[T]) Push(x any) {
	item := x.(T) //nolint:forcetypeassert // Put pushes nothing else
	p.items = append(p.items, item)
	p.place(item).n = len(p.items)
}

// Pop implements heap.Interface.
func (p *places[T]) Pop() any {
	last := len(p.items) - 1
	item := p.items[last]
	var none T
	p.items[last] = none
	p.items = p.items[:last]
	p.place(item).n = 0
	return item
}

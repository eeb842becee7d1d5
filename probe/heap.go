package probe

import "container/heap"

// dueHeap holds the idle workers, the one that is due first at the top.
type dueHeap []*worker

// Len, Less, Swap, Push and Pop are for the package heap.
func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].slot, h[j].slot = i, j
}

func (h *dueHeap) Push(x any) {
	w := x.(*worker) //nolint:forcetypeassert // only workers are pushed
	w.slot = len(*h)
	*h = append(*h, w)
}

func (h *dueHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	w.slot = -1
	return w
}

// put adds a worker, or moves it to where its time says.
func (h *dueHeap) put(w *worker) {
	if w.slot < 0 {
		heap.Push(h, w)
		return
	}
	heap.Fix(h, w.slot)
}

func (h *dueHeap) remove(w *worker) {
	if w.slot >= 0 {
		heap.Remove(h, w.slot)
	}
}

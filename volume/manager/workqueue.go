package manager

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
)

// item is a pod, a volume or a listing, on which operations run one at a time.
type item interface {
	base() *unit
	// next returns the next step, or the reason to wait.
	next(rc *reconciler, now time.Time) step
}

// workQueue has the items to examine, now and later, and the pods whose callers must check
// again.
type workQueue struct {
	dirty     []item
	scheduled *run.Heap[item]
	changed   set[types.UID]
}

func newWorkQueue() workQueue {
	return workQueue{changed: set[types.UID]{}, scheduled: run.NewHeap(
		func(a, b item) bool { return a.base().scheduledAt.Before(b.base().scheduledAt) },
		func(a item) *run.Place { return &a.base().place },
	)}
}

// pop returns the next item to examine, or nil.
func (q *workQueue) pop(now time.Time) item {
	for first, ok := q.scheduled.First(); ok && !first.base().scheduledAt.After(now); first, ok = q.scheduled.First() {
		q.scheduled.Remove(first)
		q.touch(first)
	}
	if len(q.dirty) == 0 {
		q.dirty = nil
		return nil
	}
	first := q.dirty[0]
	q.dirty = q.dirty[1:]
	first.base().dirty = false
	return first
}

func (q *workQueue) push(a item, at time.Time) {
	a.base().scheduledAt = at
	q.scheduled.Put(a)
}

func (q *workQueue) nextDue() (time.Time, bool) {
	first, ok := q.scheduled.First()
	if !ok {
		return time.Time{}, false
	}
	return first.base().scheduledAt, true
}

func (q *workQueue) touch(a item) {
	if u := a.base(); !u.dirty {
		u.dirty = true
		q.dirty = append(q.dirty, a)
	}
}

func (q *workQueue) touchPod(p *podState) {
	q.touch(p)
	for _, v := range p.volumes {
		q.touch(v)
	}
}

func (q *workQueue) touchShared(s *sharedState) {
	if s == nil {
		return
	}
	q.touch(s)
	for v := range s.users {
		q.touch(v)
	}
}

// changes records the pods of an item as changed.
func (q *workQueue) changes(a item) {
	switch a := a.(type) {
	case *podState:
		q.changed.add(a.uid)
	case *volumeState:
		q.changed.add(a.pod.uid)
	case *sharedState:
		for v := range a.users {
			q.changed.add(v.pod.uid)
		}
	}
}

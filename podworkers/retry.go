package podworkers

import (
	"container/heap"
	"errors"
	"time"
)

// hotRetry spaces immediate retries after the first one, so that an error whose
// time has always passed already does not spin. It is what SyncKnownPods waits with
// the retry of a call that failed, too.
const hotRetry = time.Second

// retryPolicy turns the outcome of a call into a pause.
type retryPolicy struct {
	resync, backoff, network time.Duration
	jitter                   func() float64
}

// verdict is what matters about the error of a call. It is made by judge, in the
// goroutine of the call, since looking at an error runs code of its author.
type verdict struct {
	err       error     // nil: success, and the rest is zero
	notBefore time.Time // zero: says nothing
	network   bool
	cancelled bool
}

func judge(err error) verdict {
	if err == nil {
		return verdict{}
	}
	_ = err.Error() // an error that cannot even be printed panics here, not in everyone's face
	at, _ := earliest(err)
	return verdict{err: err, notBefore: at, network: errors.Is(err, ErrNetworkNotReady), cancelled: isCancellation(err)}
}

// after returns the pause after a call that ended at now.
func (p retryPolicy) after(v verdict, now time.Time) time.Duration {
	return p.spread(p.base(v, now))
}

func (p retryPolicy) base(v verdict, now time.Time) time.Duration {
	switch {
	case v.err == nil:
		return p.resync
	case v.network:
		return p.network
	case !v.notBefore.IsZero():
		return min(max(v.notBefore.Sub(now), 0), p.resync)
	}
	return p.backoff
}

// spread adds up to half of the pause.
func (p retryPolicy) spread(d time.Duration) time.Duration {
	return d + time.Duration(float64(d)*0.5*p.jitter())
}

// dueQueue is a heap of idle records by the time they are due. A record is in it
// at most once and knows its place.
type dueQueue []*record

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].dueAt, q[j].dueAt = i, j
}

// Push implements heap.Interface.
func (q *dueQueue) Push(x any) {
	r := x.(*record)
	r.dueAt = len(*q)
	*q = append(*q, r)
}

// Pop implements heap.Interface.
func (q *dueQueue) Pop() any {
	old := *q
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	r.dueAt, r.due = notQueued, time.Time{}
	return r
}

const notQueued = -1

func (q *dueQueue) set(r *record, due time.Time) {
	r.due = due
	if r.dueAt == notQueued {
		heap.Push(q, r)
		return
	}
	heap.Fix(q, r.dueAt)
}

func (q *dueQueue) remove(r *record) {
	if r.dueAt != notQueued {
		heap.Remove(q, r.dueAt)
	}
}

// next returns the earliest time at which a record is due.
func (q dueQueue) next() (time.Time, bool) {
	if len(q) == 0 {
		return time.Time{}, false
	}
	return q[0].due, true
}

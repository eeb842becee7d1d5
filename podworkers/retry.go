package podworkers

import (
	"errors"
	"time"

	"github.com/podwright/podwright/internal/run"
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

// callError is what matters about the error of a call. It is made by classify, in the
// goroutine of the call, since looking at an error runs code of its author.
type callError struct {
	err       error     // nil: success, and the rest is zero
	notBefore time.Time // zero: says nothing
	network   bool
	cancelled bool
}

func classify(err error) callError {
	if err == nil {
		return callError{}
	}
	_ = err.Error() // an error that cannot even be printed panics here, not in everyone's face
	at, _ := earliest(err)
	return callError{err: err, notBefore: at, network: errors.Is(err, ErrNetworkNotReady), cancelled: isCancellation(err)}
}

// after returns the pause after a call that ended at now.
func (p retryPolicy) after(v callError, now time.Time) time.Duration {
	return p.spread(p.base(v, now))
}

func (p retryPolicy) base(v callError, now time.Time) time.Duration {
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

// dueQueue holds the idle records by the time they are due.
type dueQueue struct{ *run.Heap[*record] }

func newDueQueue() dueQueue {
	return dueQueue{run.NewHeap(
		func(a, b *record) bool { return a.due.Before(b.due) },
		func(r *record) *run.Place { return &r.place },
	)}
}

func (q dueQueue) set(r *record, due time.Time) {
	r.due = due
	q.Put(r)
}

func (q dueQueue) remove(r *record) {
	q.Remove(r)
	r.due = time.Time{}
}

// next returns the earliest time at which a record is due.
func (q dueQueue) next() (time.Time, bool) {
	first, ok := q.First()
	if !ok {
		return time.Time{}, false
	}
	return first.due, true
}

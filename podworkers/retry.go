package podworkers

import (
	"errors"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// hotRetry is the pause between immediate retries after the first one, so that an error with a
// NotBefore in the past does not spin. SyncKnownPods uses it as well before it repeats a failed
// call.
const hotRetry = time.Second

type retryPolicy struct {
	resync, backoff, network time.Duration
	jitter                   func() float64
}

// callError has the properties of a call's error that decide about the retry. classify makes it
// in the goroutine of the call, because it runs code of the error's author.
type callError struct {
	err       error     // nil: success; the other fields are zero
	notBefore time.Time // zero: unset
	network   bool
	cancelled bool
}

func classify(err error) callError {
	if err == nil {
		return callError{}
	}
	_ = err.Error() // an error whose Error panics must panic here, in its own call
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

// dueQueue orders the idle records by due time.
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

// next returns the earliest due time.
func (q dueQueue) next() (time.Time, bool) {
	first, ok := q.First()
	if !ok {
		return time.Time{}, false
	}
	return first.due, true
}

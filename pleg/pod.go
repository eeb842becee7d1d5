package pleg

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

const (
	// hintWindow is how soon after an inspection that a hint caused the next
	// hint may cause another.
	hintWindow = 10 * time.Millisecond
	// manyHints is for how many pods without a record that is remembered.
	manyHints = 64
	// stallAfter is how long an inspection may take before it gives up its slot
	// and its pod counts as stale.
	stallAfter = 5 * time.Second
	// retryMin and retryMax bound the pause before a failed inspection is
	// repeated.
	retryMin = time.Second
	retryMax = 30 * time.Second
	// maxLooks is how many inspections of one pod may be in progress: a second one
	// begins for those whom the first is too old for.
	maxLooks = 2
	// fruitlessFree is how many inspections in a row may find nothing of what
	// the list had shown before they are slowed down like failed ones.
	fruitlessFree = 3
)

// pod is what the core knows of one pod.
type pod struct {
	uid types.UID
	// view is the newest sight of the pod, by a list or an inspection.
	view    observed.ListedPod
	viewSeq uint64
	// present tells that by the newest sight the pod exists.
	present bool
	// gone is when a query began that did not find the pod, zero if it is
	// present.
	gone time.Time
	// record is the base for events: what the last good inspection showed, or
	// nothing since the pod is gone. seq is the number of that query; what an
	// earlier query finds is rejected.
	record observed.ListedPod
	seq    uint64
	// done is the number of the last query that had begun when the record was
	// made. Of a list with a higher number it is sure that it saw the runtime
	// later; one between seq and done may have seen it earlier or later.
	done uint64
	// listed is the number of the last list that showed the pod.
	listed uint64

	// status is the cached status, nil before the first and when gone.
	status *observed.Pod
	// err is why the last inspection failed, nil when it did not.
	err error

	// looks are the inspections in progress, oldest first, maxLooks at most.
	looks   []*query
	request request
	waiters []*waiter
	turn    turn

	// failures and fruitless count in a row; notBefore is when a list may cause
	// the next inspection.
	failures  int
	fruitless int
	notBefore time.Time
	// stale is since when the pod could not be inspected, zero when it could.
	stale time.Time
	// hinted is when the last inspection began that a hint had caused.
	hinted time.Time
}

// schedule puts the pod into the order of inspections, or takes it out.
func (c *core) schedule(p *pod) {
	switch {
	case p.unserved():
		c.todo.enter(p, true, time.Time{})
	case p.request.pending() && p.mayInspect():
		c.todo.enter(p, false, p.request.due)
	default:
		c.todo.Remove(p)
		c.drop(p)
	}
}

// mayInspect reports whether an inspection may begin that no Observe waits for: the
// first one always, a second one after a request of a caller, or after an event if
// the inspection in progress seems lost.
func (p *pod) mayInspect() bool {
	switch len(p.looks) {
	case 0:
		return true
	case 1:
		return p.request.has(Acted) || (p.request.has(hinted) && !p.stale.IsZero())
	default:
		return false
	}
}

// drop forgets a pod of which nothing is left. While a list is in progress that
// began before the pod went away, the record stays: the list may still show it.
func (c *core) drop(p *pod) {
	if p.present || len(p.looks) > 0 || p.request.pending() || len(p.waiters) > 0 {
		return
	}
	if c.list.query != nil && c.list.query.seq <= p.done {
		return
	}
	delete(c.pods, p.uid)
	delete(c.stale, p.uid)
	if !p.hinted.IsZero() {
		if len(c.recent) >= manyHints {
			clear(c.recent)
		}
		c.recent[p.uid] = p.hinted
	}
}

// forget leaves nothing but a tombstone, which rejects what earlier queries may
// still bring.
func (c *core) forget(p *pod, q *query) {
	p.record, p.seq, p.done = observed.ListedPod{}, q.seq, c.seq
	p.view, p.viewSeq = observed.ListedPod{}, q.seq
	p.present, p.gone = false, q.started
	p.status = nil
	c.healthy(p)
}

func (c *core) healthy(p *pod) {
	p.err, p.failures, p.notBefore, p.stale = nil, 0, time.Time{}, time.Time{}
	delete(c.stale, p.uid)
}

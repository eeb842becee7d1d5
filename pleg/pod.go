package pleg

import (
	"fmt"
	"reflect"
	"slices"
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

// seen takes in what a list shows of a pod. A list only ever asks for a look at
// the pod; what is true comes from inspections.
func (c *core) seen(p *pod, o *observed.ListedPod, q *query, now time.Time) {
	p.listed = q.seq
	if q.seq > p.done {
		p.view, p.viewSeq, p.present, p.gone = *o, q.seq, true, time.Time{}
	}
	if !same(&p.record, o) {
		c.want(p, listed, latest(now, p.notBefore))
		return
	}
	if p.fruitless > 0 {
		p.fruitless, p.notBefore = 0, time.Time{}
	}
	switch r := &p.request; {
	case r.ticket >= q.seq:
	case r.has(Expected):
		c.want(p, Expected, latest(now, p.notBefore))
	case !r.has(hinted | failed):
		// The request is older than this list, which shows no change.
		*r = request{}
		c.schedule(p)
	}
}

// unseen takes in that a list did not show a pod.
func (c *core) unseen(p *pod, q *query, now time.Time) []Event {
	if p.done >= q.seq || (len(p.looks) > 0 && p.looks[len(p.looks)-1].seq > q.seq) {
		// A look ended, or began, while the list was in progress, and which of
		// them saw the runtime first nobody knows: look again rather than judge.
		if p.present {
			c.want(p, listed, latest(now, p.notBefore))
		}
		c.drop(p)
		return nil
	}
	events := diff(p.uid, &p.record, &observed.ListedPod{})
	c.forget(p, q)
	c.reply(p, q, answer{status: &observed.Pod{UID: p.uid, ObservedAt: q.started}})
	if p.request.ticket < q.seq {
		p.request = request{}
	}
	c.schedule(p)
	return delivered(events)
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

// applyInspection takes in the result of a look at one pod.
func (c *core) applyInspection(r result, now time.Time) []Event {
	q := r.query
	c.release(q)
	p := c.pods[q.uid]
	p.ended(q)
	var events []Event
	switch {
	case p.seq > q.seq:
		// A later query has found something meanwhile. If that was that the pod
		// is gone and this shows it, it may have come back: look again.
		if r.err == nil && !p.present && !r.status.Empty() {
			c.want(p, listed, now)
		}
	case r.err != nil:
		c.failed(p, q, r.err, now)
		c.reply(p, q, answer{err: p.err})
	default:
		events = c.observed(p, q, r.status, now)
	}
	c.schedule(p)
	return events
}

// ended removes an inspection from those in progress.
func (p *pod) ended(q *query) {
	p.looks = slices.DeleteFunc(p.looks, func(x *query) bool { return x == q })
}

// failed keeps the error beside the last good status and asks for another try.
// No event goes out and the record stays: the change is not lost.
func (c *core) failed(p *pod, q *query, err error, now time.Time) {
	p.err = fmt.Errorf("pod %s: inspect: %w", p.uid, err)
	p.failures++
	p.notBefore = now.Add(doubling(retryMin, retryMax, p.failures))
	c.markStale(p, q.started)
	c.want(p, q.causes|failed, p.notBefore)
}

// observed takes in a good status.
func (c *core) observed(p *pod, q *query, s *observed.Pod, now time.Time) []Event {
	fresh := *s
	fresh.UID, fresh.ObservedAt = p.uid, q.started
	fresh.IPs = keepIPs(&fresh, p.status)
	if p.done >= q.seq && !p.shows(fresh) {
		// The record was made while this look was in progress, and differs: which
		// of them saw the runtime first nobody knows. Look again.
		c.want(p, q.causes|listed, now)
		return nil
	}
	next := fresh.Listed()
	all := diff(p.uid, &p.record, &next)
	if p.viewSeq == p.listed && same(&p.view, &next) {
		// This inspection found what the list had shown, although it began before
		// the list ended.
		p.request.withdraw(listed)
	}
	changed := !same(&p.record, &next)
	if changed {
		c.active(now)
	}
	if fresh.Empty() {
		c.forget(p, q)
	} else {
		fresh.Name, fresh.Namespace = orElse(fresh.Name, p.view.Name), orElse(fresh.Namespace, p.view.Namespace)
		next.Name, next.Namespace = fresh.Name, fresh.Namespace
		p.record, p.seq, p.done, p.status = next, q.seq, c.seq, &fresh
		if q.seq > p.viewSeq {
			p.view, p.viewSeq = next, q.seq
		}
		p.present, p.gone = true, time.Time{}
		c.healthy(p)
		p.countFruitless(q, changed, now)
	}
	c.reply(p, q, answer{status: &fresh})
	events := delivered(all)
	if len(events) == 0 && q.causes&(Expected|failed) != 0 {
		events = append(events, Event{UID: p.uid, Type: PodSync})
	}
	return events
}

// shows tells that the cached status is the same as another but for its time.
func (p *pod) shows(s observed.Pod) bool {
	if p.status == nil {
		return !p.present && s.Empty()
	}
	s.Name, s.Namespace = orElse(s.Name, p.status.Name), orElse(s.Namespace, p.status.Namespace)
	s.ObservedAt = p.status.ObservedAt
	return reflect.DeepEqual(s, *p.status)
}

// countFruitless counts inspections that a list caused and that found nothing. A runtime
// whose list and look keep contradicting each other must not be asked forever
// at full speed.
func (p *pod) countFruitless(q *query, found bool, now time.Time) {
	switch {
	case found:
		p.fruitless = 0
	case q.causes&listed != 0:
		p.fruitless++
	}
	if n := p.fruitless - fruitlessFree; n > 0 {
		p.notBefore = now.Add(doubling(retryMin, retryMax, n+1))
	}
}

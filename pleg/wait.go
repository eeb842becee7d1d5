package pleg

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

// waiter is an Observe in progress.
type waiter struct {
	ticket uint64
	after  time.Time
	answer chan answer // capacity 1
}

type answer struct {
	status *observed.Pod
	err    error
}

// served reports whether the query is new enough for the waiter.
func (w *waiter) served(q *query) bool {
	return q.seq > w.ticket || q.started.After(w.after)
}

// unserved reports whether a waiter needs an inspection that has not begun and may begin.
func (p *pod) unserved() bool {
	switch n := len(p.inspections); {
	case len(p.waiters) == 0 || n == maxPerPod:
		return false
	case n == 0:
		return true
	}
	inspection := p.inspections[0]
	return inspection.seq <= p.waiters[len(p.waiters)-1].ticket && // the newest one has the highest ticket
		slices.ContainsFunc(p.waiters, func(w *waiter) bool { return !w.served(inspection) })
}

// reply sends the result to the waiters for which the query is new enough.
func (c *core) reply(p *pod, q *query, a answer) {
	for _, w := range p.waiters {
		if w.served(q) {
			w.answer <- a
		}
	}
	p.waiters = slices.DeleteFunc(p.waiters, func(w *waiter) bool { return w.served(q) })
}

// cached returns a status that is newer than the given time, or nil.
func (c *core) cached(uid types.UID, after time.Time) *observed.Pod {
	p := c.pods[uid]
	switch {
	case p != nil && p.err != nil:
		return nil
	case p != nil && p.state == inspected:
		if p.status.ObservedAt.After(after) {
			return p.status
		}
	default:
		if t := c.absentSince(p); t.After(after) {
			return &observed.Pod{UID: uid, ObservedAt: t}
		}
	}
	return nil
}

// abandon removes a waiter, and with the last waiter the need for an inspection.
func (c *core) abandon(uid types.UID, w *waiter) {
	p := c.pods[uid]
	if p == nil {
		return
	}
	p.waiters = slices.DeleteFunc(p.waiters, func(x *waiter) bool { return x == w })
	c.schedule(p)
}

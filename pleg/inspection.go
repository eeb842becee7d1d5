package pleg

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/podwright/podwright/pleg/observed"
)

func (c *core) inspect(p *pod, now time.Time) *query {
	q := c.query(inspectOne, now)
	q.uid, q.causes = p.uid, p.request.causes
	if p.request.has(hinted) {
		p.hinted = now
	}
	p.request, p.inspections = request{}, append(p.inspections, q)
	c.slots = append(c.slots, q)
	c.schedule(p)
	return q
}

// stall removes slow inspections from the slots, so that hanging pods do not delay others. It
// returns the time at which the next inspection loses its slot.
func (c *core) stall(now time.Time) time.Time {
	for len(c.slots) > 0 {
		q := c.slots[0]
		if limit := q.started.Add(stallAfter); limit.After(now) {
			return limit
		}
		c.slots = slices.Delete(c.slots, 0, 1)
		if p := c.pods[q.uid]; p.seq < q.seq { // no later result
			c.markStale(p, q.started)
			c.schedule(p)
		}
	}
	return time.Time{}
}

func (c *core) release(q *query) {
	if i := slices.Index(c.slots, q); i >= 0 {
		c.slots = slices.Delete(c.slots, i, i+1)
	}
}

func (c *core) markStale(p *pod, since time.Time) {
	if p.stale.IsZero() {
		p.stale = since
	}
	c.stale[p.uid] = p
}

func (c *core) applyInspection(r result, now time.Time) []Event {
	q := r.query
	c.release(q)
	p := c.pods[q.uid]
	p.ended(q)
	var events []Event
	switch {
	case p.seq > q.seq:
		// A later query has a result. If it was the pod's absence and this inspection shows the
		// pod, the pod may have returned: inspect again.
		if r.err == nil && !p.state.present() && !r.status.Empty() {
			c.requestInspection(p, listed, now)
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

func (p *pod) ended(q *query) {
	p.inspections = slices.DeleteFunc(p.inspections, func(x *query) bool { return x == q })
}

// failed stores the error beside the last good status and schedules a retry. It delivers no
// event and keeps the record, so that the change is not lost.
func (c *core) failed(p *pod, q *query, err error, now time.Time) {
	p.err = fmt.Errorf("pod %s: inspect: %w", p.uid, err)
	p.failures++
	p.notBefore = now.Add(doubling(retryMin, retryMax, p.failures))
	c.markStale(p, q.started)
	c.requestInspection(p, q.causes|failed, p.notBefore)
}

func (c *core) observed(p *pod, q *query, s *observed.Pod, now time.Time) []Event {
	fresh := *s
	fresh.UID, fresh.ObservedAt = p.uid, q.started
	fresh.IPs = keepIPs(&fresh, p.status)
	if p.done >= q.seq && !p.shows(fresh) {
		// The record was made during this inspection and differs. Their order in the runtime is
		// unknown: inspect again.
		c.requestInspection(p, q.causes|listed, now)
		return nil
	}
	next := fresh.Listed()
	all := diff(p.uid, &p.record, &next)
	if p.viewSeq == p.listed && same(&p.view, &next) {
		// This inspection confirms the list, although it began before the list ended.
		p.request.withdraw(listed)
	}
	changed := !same(&p.record, &next)
	if changed {
		c.active(now)
	}
	if fresh.Empty() {
		c.missed(p, q)
	} else {
		fresh.Name, fresh.Namespace = cmp.Or(fresh.Name, p.view.Name), cmp.Or(fresh.Namespace, p.view.Namespace)
		fresh.Source = cmp.Or(fresh.Source, p.view.Source)
		next.Name, next.Namespace, next.Source = fresh.Name, fresh.Namespace, fresh.Source
		c.found(p, q, &fresh, next)
		p.countFruitless(q, changed, now)
		if hasUnknown(&next) && c.cfg.pause(c.stream.mode, now.Sub(c.list.active), c.list.took) > unknownPause {
			c.requestInspection(p, hinted, now.Add(unknownPause)) // the next list is too late
		}
	}
	c.reply(p, q, answer{status: &fresh})
	events := delivered(all)
	if len(events) == 0 && q.causes&(Expected|failed) != 0 {
		events = append(events, Event{UID: p.uid, Type: PodSync})
	}
	return events
}

// shows reports whether the cached status is equal to s except for ObservedAt.
func (p *pod) shows(s observed.Pod) bool {
	if p.state != inspected {
		return !p.state.present() && s.Empty()
	}
	s.Name, s.Namespace = cmp.Or(s.Name, p.status.Name), cmp.Or(s.Namespace, p.status.Namespace)
	s.ObservedAt = p.status.ObservedAt
	return reflect.DeepEqual(s, *p.status)
}

// hasUnknown reports whether a sandbox or container is in unknown state. Runtimes report that state
// of objects that they are restoring or cannot read, and often only for a moment.
func hasUnknown(p *observed.ListedPod) bool {
	return slices.ContainsFunc(p.Sandboxes, func(s observed.ListedSandbox) bool { return s.State == observed.SandboxUnknown }) ||
		slices.ContainsFunc(p.Containers, func(c observed.ListedContainer) bool { return c.State == observed.StateUnknown })
}

// countFruitless counts inspections that a list caused and that found no change. It slows them
// down if the lists and inspections of a runtime contradict each other. The pause is constant, so
// that the status is right soon after the contradiction ends.
func (p *pod) countFruitless(q *query, found bool, now time.Time) {
	switch {
	case found:
		p.fruitless = 0
	case q.causes&listed != 0:
		p.fruitless++
	}
	if p.fruitless > fruitlessFree {
		p.notBefore = now.Add(contradictedPause)
	}
}

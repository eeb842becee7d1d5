package pleg

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

// kind is what a query asks for.
type kind int8

const (
	listAll kind = iota
	inspectOne
	streamEvents
)

// query is one call into the runtime. Queries are numbered in the order in which
// they begin; what a query finds never replaces what a later one found.
type query struct {
	kind    kind
	seq     uint64
	started time.Time
	uid     types.UID // of an inspection
	causes  Cause     // of an inspection
}

// String names the call.
func (q *query) String() string {
	switch q.kind {
	case listAll:
		return "ListPods"
	case inspectOne:
		return "PodStatus of pod " + string(q.uid)
	default:
		return "PodEvents"
	}
}

// result is what became of a query.
type result struct {
	query  *query
	pods   []observed.ListedPod
	status *observed.Pod
	err    error
}

// core is all that a PLEG knows and decides. It has no goroutine, no lock and no
// clock: its owner passes the moments, starts the queries that next returns, and
// brings back their results.
type core struct {
	cfg  Config
	seq  uint64
	pods map[types.UID]*pod
	todo schedule
	// recent are pods without a record, and when the last look at each began that a
	// hint had caused: many events about a pod that is gone, such as a backlog, are
	// few looks with it.
	recent map[types.UID]time.Time
	// slots are the inspections that count against maxSlots, oldest first.
	slots    []*query
	maxSlots int
	stale    map[types.UID]*pod
	list     listing
	stream   stream
}

func newCore(cfg Config, events bool) *core {
	c := &core{cfg: cfg, maxSlots: maxInspections, pods: map[types.UID]*pod{}, stale: map[types.UID]*pod{}, recent: map[types.UID]time.Time{}, todo: newSchedule()}
	if events {
		c.stream.state = StreamClosed
	}
	return c
}

// begin makes the first list and the event stream due.
func (c *core) begin(now time.Time) {
	c.list.next, c.list.active, c.stream.next = now, now, now
}

// end forgets the queries in flight, and answers everybody who waits.
func (c *core) end(err error, now time.Time) {
	c.list.query, c.slots = nil, nil
	if c.stream.state == StreamOpening || c.stream.state == StreamOpen {
		c.stream.ended(err, now)
	}
	for _, p := range c.pods {
		p.looks = nil
		for _, w := range p.waiters {
			w.answer <- answer{err: err}
		}
		p.waiters = nil
		c.schedule(p)
	}
}

// next returns the next query to start now, nil when there is none; then wake is
// when to ask again, zero when only a result or a request changes anything.
func (c *core) next(now time.Time) (q *query, wake time.Time) {
	switch {
	case c.stream.due(now):
		c.stream.opened(now)
		return c.query(streamEvents, now), time.Time{}
	case c.stream.settle(now, c.seq):
		c.list.next = now
	}
	if c.list.query == nil && !c.list.next.After(now) {
		c.list.query = c.query(listAll, now)
		return c.list.query, time.Time{}
	}
	stall := c.stall(now)
	wake = earliest(c.stream.wake(), stall)
	if c.list.query == nil {
		wake = earliest(wake, c.list.next)
	}
	p, due := c.todo.next(now)
	switch {
	case p == nil:
		return nil, earliest(wake, due)
	case len(c.slots) >= c.maxSlots:
		return nil, wake
	}
	return c.inspect(p, now), time.Time{}
}

func (c *core) query(k kind, now time.Time) *query {
	c.seq++
	return &query{kind: k, seq: c.seq, started: now}
}

// apply takes in the result of a query and returns the events to deliver.
func (c *core) apply(r result, now time.Time) []Event {
	switch r.query.kind {
	case listAll:
		return c.applyList(r, now)
	case streamEvents:
		wasEvented := c.stream.mode == Evented
		c.stream.ended(r.err, now)
		if wasEvented {
			c.list.next, c.list.active = now, now
		}
		return nil
	default:
		return c.applyInspection(r, now)
	}
}

// get returns the record of a pod, a new one if there is none.
func (c *core) get(uid types.UID) *pod {
	p := c.pods[uid]
	if p == nil {
		p = &pod{uid: uid}
		c.pods[uid] = p
	}
	return p
}

// absentSince returns the latest moment at which the pod is known not to have
// been there, zero when nobody knows. p is nil for a pod without a record.
func (c *core) absentSince(p *pod) time.Time {
	if p == nil {
		return c.list.at
	}
	if p.state.present() {
		return time.Time{}
	}
	return latest(p.goneAt, c.list.at)
}

// earliest returns the earlier of two moments of which zero means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

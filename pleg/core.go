package pleg

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

type kind int8

const (
	listAll kind = iota
	inspectOne
	streamEvents
)

// query is one call of the runtime. Queries are numbered by their start; the result of an
// earlier query never replaces the result of a later one.
type query struct {
	kind    kind
	seq     uint64
	started time.Time
	uid     types.UID // of an inspection
	causes  Cause     // of an inspection
}

// String returns the name of the call.
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

type result struct {
	query  *query
	pods   []observed.ListedPod
	status *observed.Pod
	err    error
}

// core has the state and the decisions of a PLEG. It has no goroutine, lock or clock: its owner
// passes the time, starts the queries that next returns, and passes their results to apply.
type core struct {
	cfg      Config
	seq      uint64
	pods     map[types.UID]*pod
	dueQueue schedule
	// recent has pods without a record, and the start of the last inspection of each that a hint
	// caused. It bounds the inspections for many events of a removed pod, such as a backlog.
	recent map[types.UID]time.Time
	// slots are the inspections that count against maxSlots, oldest first.
	slots    []*query
	maxSlots int
	stale    map[types.UID]*pod
	list     listing
	stream   stream
}

func newCore(cfg Config, events bool) *core {
	c := &core{cfg: cfg, maxSlots: maxInspections, pods: map[types.UID]*pod{}, stale: map[types.UID]*pod{}, recent: map[types.UID]time.Time{}, dueQueue: newSchedule()}
	if events {
		c.stream.state = StreamClosed
	}
	return c
}

// begin makes the first list and the event stream due.
func (c *core) begin(now time.Time) {
	c.list.next, c.list.active, c.stream.next = now, now, now
}

// end forgets the running queries and ends all waits with err.
func (c *core) end(err error, now time.Time) {
	c.list.query, c.slots = nil, nil
	if c.stream.state == StreamOpening || c.stream.state == StreamOpen {
		c.stream.ended(err, now)
	}
	for _, p := range c.pods {
		p.inspections = nil
		for _, w := range p.waiters {
			w.answer <- answer{err: err}
		}
		p.waiters = nil
		c.schedule(p)
	}
}

// next returns the query to start now, or nil. In that case wake is the time of the next call,
// zero if only a result or a request causes a query.
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
	p, due := c.dueQueue.next(now)
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

// apply processes the result of a query and returns the events to deliver.
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

func (c *core) get(uid types.UID) *pod {
	p := c.pods[uid]
	if p == nil {
		p = &pod{uid: uid}
		c.pods[uid] = p
	}
	return p
}

// absentSince returns the latest time at which the pod is proven absent, or zero. p is nil for a
// pod without a record.
func (c *core) absentSince(p *pod) time.Time {
	if p == nil {
		return c.list.at
	}
	if p.state.present() {
		return time.Time{}
	}
	return latest(p.missingAt, c.list.at)
}

// earliest returns the earlier time. Zero means never.
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

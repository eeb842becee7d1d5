package pleg

import (
	"slices"
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

// listing is what the core knows of the lists of all pods.
type listing struct {
	// query is the list in progress, nil when there is none.
	query *query
	// next is when the next one begins.
	next time.Time
	// at and seq are the beginning and the number of the last complete list;
	// at is zero before the first.
	at  time.Time
	seq uint64
	// err is why the last list failed, nil when it did not.
	err error
	// ended is when the last complete list ended and took how long it had taken.
	ended time.Time
	took  time.Duration
	// active is when something happened last: a change was found, or somebody
	// asked for a look.
	active time.Time
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
	// slots are the inspections that count against MaxInspections, oldest first.
	slots  []*query
	stale  map[types.UID]*pod
	list   listing
	stream stream
}

func newCore(cfg Config, events bool) *core {
	c := &core{cfg: cfg, pods: map[types.UID]*pod{}, stale: map[types.UID]*pod{}, recent: map[types.UID]time.Time{}, todo: newSchedule()}
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
	case len(c.slots) >= c.cfg.MaxInspections:
		return nil, wake
	}
	return c.inspect(p, now), time.Time{}
}

func (c *core) query(k kind, now time.Time) *query {
	c.seq++
	return &query{kind: k, seq: c.seq, started: now}
}

func (c *core) inspect(p *pod, now time.Time) *query {
	q := c.query(inspectOne, now)
	q.uid, q.causes = p.uid, p.request.causes
	if p.request.has(hinted) {
		p.hinted = now
	}
	p.request, p.looks = request{}, append(p.looks, q)
	c.slots = append(c.slots, q)
	c.schedule(p)
	return q
}

// stall takes their slots from inspections that take too long, so that any
// number of hanging pods holds nobody else up, and returns when the next one is
// due to lose its own.
func (c *core) stall(now time.Time) time.Time {
	for len(c.slots) > 0 {
		q := c.slots[0]
		if limit := q.started.Add(stallAfter); limit.After(now) {
			return limit
		}
		c.slots = slices.Delete(c.slots, 0, 1)
		if p := c.pods[q.uid]; p.seq < q.seq { // nothing later has come
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

func (c *core) applyList(r result, now time.Time) []Event {
	q := r.query
	c.list.query = nil
	if r.err != nil {
		c.list.err, c.list.next = r.err, now.Add(c.cfg.RelistPeriod)
		c.sweep()
		return nil
	}
	if c.list.err != nil {
		c.stream.recovered(now)
	}
	c.list.err, c.list.at, c.list.seq = nil, q.started, q.seq
	c.stream.listed(q.seq, now)
	c.plan(q, now)

	for i := range r.pods {
		o := &r.pods[i]
		if o.UID == "" || len(o.Sandboxes)+len(o.Containers) == 0 {
			continue // nothing that exists
		}
		p := c.pods[o.UID]
		if p == nil {
			p = c.add(o.UID)
		}
		c.seen(p, o, q, now)
	}
	var events []Event
	for _, p := range c.pods {
		if p.listed != q.seq {
			events = append(events, c.unseen(p, q, now)...)
		}
	}
	if len(events) > 0 {
		c.active(now)
	}
	return events
}

// sweep drops what was kept only for the sake of a list in progress.
func (c *core) sweep() {
	for _, p := range c.pods {
		c.drop(p)
	}
}

func (c *core) add(uid types.UID) *pod {
	p := &pod{uid: uid}
	c.pods[uid] = p
	return p
}

func (c *core) get(uid types.UID) *pod {
	if p := c.pods[uid]; p != nil {
		return p
	}
	return c.add(uid)
}

// absentSince returns the latest moment at which the pod is known not to have
// been there, zero when nobody knows. p is nil for a pod without a record.
func (c *core) absentSince(p *pod) time.Time {
	if p == nil {
		return c.list.at
	}
	if p.present {
		return time.Time{}
	}
	return latest(p.gone, c.list.at)
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

package pleg

import (
	"time"

	"github.com/podwright/podwright/pleg/observed"
)

type listing struct {
	// query is the running list, or nil.
	query *query
	// next is the start of the next list.
	next time.Time
	// at is the start of the last complete list, zero before the first.
	at time.Time
	// err is the error of the last list, or nil.
	err error
	// ended and took are the end and the duration of the last complete list.
	ended time.Time
	took  time.Duration
	// pods is the number of entries of the last complete list.
	pods int
	// dropped is the number of the last query that had begun when a hint was dropped. A list with
	// a higher number covers it.
	dropped uint64
	// active is the time of the last activity: a detected change or a request.
	active time.Time
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
	c.list.err, c.list.at, c.list.pods = nil, q.started, len(r.pods)
	c.stream.listed(q.seq, now)
	c.plan(q, now)

	for i := range r.pods {
		o := &r.pods[i]
		if o.UID == "" || len(o.Sandboxes)+len(o.Containers) == 0 {
			continue // an empty pod does not exist
		}
		c.seen(c.get(o.UID), o, q, now)
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

// sweep drops records that were kept only for a running list.
func (c *core) sweep() {
	for _, p := range c.pods {
		c.drop(p)
	}
}

// seen processes a pod of a list. A list only requests inspections; their results are the
// record.
func (c *core) seen(p *pod, o *observed.ListedPod, q *query, now time.Time) {
	p.listed = q.seq
	if q.seq > p.done {
		p.view, p.viewSeq, p.missingAt = *o, q.seq, time.Time{}
		if p.state != inspected {
			p.state = uninspected
		}
	}
	if !same(&p.record, o) {
		c.requestInspection(p, listed, latest(now, p.notBefore))
		return
	}
	if p.fruitless > 0 {
		p.fruitless, p.notBefore = 0, time.Time{}
	}
	switch r := &p.request; {
	case r.ticket >= q.seq:
	case r.has(Expected):
		c.requestInspection(p, Expected, latest(now, p.notBefore))
	case !r.has(hinted | failed):
		// The request is older than this list, which shows no change.
		*r = request{}
		c.schedule(p)
	}
}

// unseen processes the absence of a pod in a list.
func (c *core) unseen(p *pod, q *query, now time.Time) []Event {
	if p.done >= q.seq || (len(p.inspections) > 0 && p.inspections[len(p.inspections)-1].seq > q.seq) {
		// An inspection ended or began during the list. Their order in the runtime is unknown:
		// inspect again.
		if p.state.present() {
			c.requestInspection(p, listed, latest(now, p.notBefore))
		}
		c.drop(p)
		return nil
	}
	events := diff(p.uid, &p.record, &observed.ListedPod{})
	c.missed(p, q)
	c.reply(p, q, answer{status: &observed.Pod{UID: p.uid, ObservedAt: q.started}})
	if p.request.ticket < q.seq {
		p.request = request{}
	}
	c.schedule(p)
	return delivered(events)
}

package pleg

import (
	"time"

	"github.com/podwright/podwright/pleg/observed"
)

// listing is what the core knows of the lists of all pods.
type listing struct {
	// query is the list in progress, nil when there is none.
	query *query
	// next is when the next one begins.
	next time.Time
	// at is the begin of the last complete list, zero before the first.
	at time.Time
	// err is why the last list failed, nil when it did not.
	err error
	// ended is when the last complete list ended and took how long it had taken.
	ended time.Time
	took  time.Duration
	// active is when something happened last: a change was found, or somebody
	// asked for a look.
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
	c.list.err, c.list.at = nil, q.started
	c.stream.listed(q.seq, now)
	c.plan(q, now)

	for i := range r.pods {
		o := &r.pods[i]
		if o.UID == "" || len(o.Sandboxes)+len(o.Containers) == 0 {
			continue // nothing that exists
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

// sweep drops what was kept only for the sake of a list in progress.
func (c *core) sweep() {
	for _, p := range c.pods {
		c.drop(p)
	}
}

// seen takes in what a list shows of a pod. A list only ever asks for a look at
// the pod; what is true comes from inspections.
func (c *core) seen(p *pod, o *observed.ListedPod, q *query, now time.Time) {
	p.listed = q.seq
	if q.seq > p.done {
		p.view, p.viewSeq, p.goneAt = *o, q.seq, time.Time{}
		if p.state != inspected {
			p.state = uninspected
		}
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
		if p.state.present() {
			c.want(p, listed, latest(now, p.notBefore))
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

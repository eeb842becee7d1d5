package pleg

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Cause is the reason for an inspection. Callers of Request choose between Acted
// and Expected.
type Cause uint8

const (
	// Acted requests an inspection at once, because the caller changed the pod. An
	// inspection that finds no change is not reported. A Cause that is not listed
	// here counts as Acted.
	Acted Cause = 1 << iota
	// Expected requests an inspection with the next list, at the latest one
	// RelistPeriod from now, because the caller expects a change that lists do not
	// show, such as a resize. An inspection that finds no change of a container's
	// state is reported with a PodSync.
	Expected

	// hinted is an event of the runtime.
	hinted
	// listed is a list that shows a change.
	listed
	// failed is an inspection that failed.
	failed
)

// request is a request for an inspection that no Observe waits for. The zero value
// is no request.
type request struct {
	causes Cause
	// ticket is the number of the last query that began before the request.
	ticket uint64
	due    time.Time
}

func (r *request) has(any Cause) bool { return r.causes&any != 0 }

func (r *request) pending() bool { return r.causes != 0 }

// withdraw removes a cause, and the request with its last cause.
func (r *request) withdraw(cause Cause) {
	if r.causes &^= cause; r.causes == 0 {
		*r = request{}
	}
}

// merge adds another request: the earlier due time and the later ticket count.
func (r *request) merge(other request) {
	if r.pending() {
		other.due = earliestDue(other.due, r.due)
		other.ticket = max(other.ticket, r.ticket)
		other.causes |= r.causes
	}
	*r = other
}

func earliestDue(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (c *core) requestInspection(p *pod, causes Cause, due time.Time) {
	p.request.merge(request{causes: causes, ticket: c.seq, due: due})
	c.schedule(p)
}

func (c *core) request(uid types.UID, cause Cause, now time.Time) {
	due := now
	if cause == Expected {
		due = now.Add(c.cfg.RelistPeriod)
	} else {
		cause = Acted
	}
	c.requestInspection(c.get(uid), cause, due)
	c.active(now)
}

// hint adds the request of an event. The first hint is due at once; further hints
// within hintWindow share one inspection.
//
// A hint of a pod without a record causes a list instead if there are already many such records, so
// that events of pods that do not exist neither fill the memory nor delay inspections of others.
func (c *core) hint(uid types.UID, now time.Time) {
	if c.pods[uid] == nil && len(c.pods) >= c.list.pods+maxUnlisted {
		c.list.dropped = c.seq
		c.list.next = earliestDue(c.list.next, latest(now, c.list.ended.Add(c.cfg.RelistPeriod)))
		return
	}
	p, due := c.get(uid), now
	if p.hinted.IsZero() {
		p.hinted = c.recent[uid]
	}
	if soonest := p.hinted.Add(hintWindow); soonest.After(now) {
		due = soonest
	}
	c.requestInspection(p, hinted, due)
}

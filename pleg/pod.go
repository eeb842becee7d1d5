package pleg

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

const (
	// hintWindow is the shortest time between two inspections of a pod that hints cause.
	hintWindow = 10 * time.Millisecond
	// manyHints is the largest number of pods without a record for which hintWindow is enforced.
	manyHints = 64
	// maxUnlisted is the number of records beyond the pods of the last list from which a hint
	// creates no record.
	maxUnlisted = 128
	// maxInspections bounds parallel calls of PodStatus, without calls older than stallAfter.
	maxInspections = 64
	// stallAfter is the duration after which an inspection loses its slot and its pod counts as
	// stale.
	stallAfter = 5 * time.Second
	// retryMin and retryMax bound the pause before a failed inspection is repeated.
	retryMin = time.Second
	retryMax = 30 * time.Second
	// maxPerPod is the largest number of parallel inspections of one pod. The second one begins
	// for callers that need a newer result than the first.
	maxPerPod = 2
	// fruitlessFree is the number of inspections in a row that may contradict the list before
	// the next ones wait for contradictedPause.
	fruitlessFree = 3
	// contradictedPause is the pause between inspections that contradict the list.
	contradictedPause = 1500 * time.Millisecond
	// unknownPause is the pause before a pod with an unknown state is inspected again.
	unknownPause = time.Second
)

// podState is the result of the newest query about a pod.
//
//	query \ state         unseen       uninspected  inspected  missing
//	list shows the pod    uninspected  -            -          uninspected
//	list lacks the pod    missing      missing      missing    -
//	inspection finds it   inspected    inspected    -          inspected
//	inspection lacks it   missing      missing      missing    -
//
// A query that fails, or that a newer result overtook, changes no state.
type podState int8

const (
	// unseen is a pod that only a caller or an event named.
	unseen podState = iota
	// uninspected is a pod that a list showed, without a successful inspection.
	uninspected
	// inspected is a pod with a status in the cache.
	inspected
	// missing is a pod that the runtime does not have. The record rejects results of
	// earlier queries.
	missing
)

// present reports whether the runtime has the pod.
func (s podState) present() bool { return s == uninspected || s == inspected }

type pod struct {
	uid   types.UID
	state podState
	// missingAt is the start of the query that led to the state missing.
	missingAt time.Time
	// view is the pod in the newest list or inspection, viewSeq that query's number.
	view    observed.ListedPod
	viewSeq uint64
	// listed is the number of the last list that showed the pod.
	listed uint64

	// status is the cached status, nil unless inspected. record is the same as an
	// entry in a list, the base for events, empty unless inspected.
	status *observed.Pod
	record observed.ListedPod
	// seq is the number of the query that led to the record. Results of earlier
	// queries are rejected.
	seq uint64
	// done is the number of the last query that had begun when the record was
	// made. A list with a higher number saw the runtime later; a list between seq
	// and done may have seen it earlier or later.
	done uint64

	// inspections are the inspections in progress, oldest first, maxPerPod at most.
	inspections []*query
	request     request
	waiters     []*waiter
	position    position
	// hinted is the start of the last inspection that a hint caused.
	hinted time.Time

	// err is the error of the last inspection, failures the number of failures in
	// a row.
	err      error
	failures int
	// stale is the start of the first inspection without a result, zero after a result.
	stale time.Time
	// fruitless counts inspections in a row that a list caused and that found no
	// change. A list may cause the next inspection at notBefore.
	fruitless int
	notBefore time.Time
}

// schedule puts the pod into the order of inspections, or takes it out.
func (c *core) schedule(p *pod) {
	switch {
	case p.unserved():
		c.dueQueue.enter(p, true, time.Time{})
	case p.request.pending() && p.mayInspect():
		c.dueQueue.enter(p, false, p.request.due)
	default:
		c.dueQueue.Remove(p)
		c.drop(p)
	}
}

// mayInspect reports whether an inspection may begin that no Observe waits for: the
// first one always, a second one after a request of a caller, or after an event if
// the inspection in progress seems lost.
func (p *pod) mayInspect() bool {
	switch len(p.inspections) {
	case 0:
		return true
	case 1:
		return p.request.has(Acted) || (p.request.has(hinted) && !p.stale.IsZero())
	default:
		return false
	}
}

// drop forgets an absent pod without inspections, requests and waiters. The record stays while a
// list runs that began before the pod went away, because that list may still show it.
func (c *core) drop(p *pod) {
	if p.state.present() || len(p.inspections) > 0 || p.request.pending() || len(p.waiters) > 0 {
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

// found records the pod in the state that an inspection found.
func (c *core) found(p *pod, q *query, status *observed.Pod, entry observed.ListedPod) {
	p.state, p.missingAt = inspected, time.Time{}
	p.status, p.record, p.seq, p.done = status, entry, q.seq, c.seq
	if q.seq > p.viewSeq {
		p.view, p.viewSeq = entry, q.seq
	}
	c.healthy(p)
}

func (c *core) missed(p *pod, q *query) {
	p.state, p.missingAt = missing, q.started
	p.status, p.record, p.seq, p.done = nil, observed.ListedPod{}, q.seq, c.seq
	p.view, p.viewSeq = observed.ListedPod{}, q.seq
	c.healthy(p)
}

func (c *core) healthy(p *pod) {
	p.err, p.failures, p.notBefore, p.stale = nil, 0, time.Time{}, time.Time{}
	delete(c.stale, p.uid)
}

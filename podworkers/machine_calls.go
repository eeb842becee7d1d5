package podworkers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

type result struct {
	terminal bool
	callError
}

// advance starts the pod's next call if one is due and not blocked.
func (m *machine) advance(r *record, now time.Time) {
	if r.call != CallNone || !r.ready {
		return
	}
	if r.static && !r.begun {
		switch {
		case r.state == StateTerminationRequested && !r.observed && m.names.blocked(r.fullName(), r.uid):
			m.finish(r, now) // it never ran
			return
		case r.state < StateTerminationRequested && m.names.next(r.fullName()) != r.uid:
			return
		}
	}
	if m.isOpen {
		m.begin(r, now)
	}
}

// begin starts the call that belongs to the pod's state.
func (m *machine) begin(r *record, now time.Time) {
	if r.hasPending {
		r.active, r.pending, r.hasPending = r.pending, spec{}, false
	}
	if r.static {
		m.names.occupy(r.fullName(), r.uid)
	}
	m.due.remove(r)
	c := call{uid: r.uid, gen: r.gen, work: Work{
		Type:      r.active.typ,
		Pod:       r.active.pod,
		MirrorPod: r.active.mirror,
		ActedAt:   r.actedAt,
		StartTime: r.active.start,
		Evicted:   r.evicted,
	}}
	switch r.state {
	case StateUnknown, StateWaiting:
		m.setState(r, StateSyncing, now)
		c.kind = CallSyncPod
	case StateSyncing:
		c.kind = CallSyncPod
	case StateTerminationRequested:
		m.setState(r, StateTerminating, now)
		m.prepareTerminating(r, &c)
	case StateTerminating:
		m.prepareTerminating(r, &c)
	default:
		c.kind = CallSyncTerminatedPod
	}
	r.begun, r.ready = true, false
	r.call, r.callSince = c.kind, now
	m.out.start = append(m.out.start, c)
}

func (m *machine) prepareTerminating(r *record, c *call) {
	if r.active.pod == nil {
		c.kind, c.orphan = CallSyncTerminatingOrphan, *r.orphan
		return
	}
	c.kind = CallSyncTerminatingPod
	c.work.GracePeriodSeconds, c.work.GraceFromSpec = r.grace.seconds, r.grace.fromSpec
	c.work.Status = r.status
}

// complete handles the end of a call. now is at or after its return. Ends of calls of forgotten
// pods, and of calls that did not begin, are ignored.
func (m *machine) complete(uid types.UID, gen uint64, res result, now time.Time) {
	r := m.records[uid]
	if r == nil || r.gen != gen || r.call == CallNone {
		return
	}
	if now.After(r.actedAt) {
		r.actedAt = now
	}
	ended := r.call
	r.call, r.callSince = CallNone, time.Time{}
	if res.err != nil {
		m.failed(r, res.callError, now)
	} else {
		r.lastErr, r.lastErrAt, r.failedAt, r.hot = nil, time.Time{}, time.Time{}, false
		m.succeeded(r, ended, res.terminal, now)
	}
	r.cancelledAt = time.Time{}
	m.advance(r, now)
}

func (m *machine) failed(r *record, v callError, now time.Time) {
	r.failedAt = now
	if expected := (!r.cancelledAt.IsZero() || m.isShut) && v.cancelled; !expected {
		r.lastErr, r.lastErrAt = v.err, now
	}
	pause := m.policy.after(v, now)
	immediate := pause == 0
	if immediate && r.hot {
		pause = hotRetry
	}
	r.hot = immediate
	m.due.set(r, now.Add(pause))
}

func (m *machine) succeeded(r *record, ended Call, terminal bool, now time.Time) {
	switch ended {
	case CallSyncPod:
		if terminal && r.state == StateSyncing {
			r.grace = effectiveGrace(grace{}, r.last().pod, nil)
			r.ready = true
			m.setState(r, StateTerminating, now)
		}
		if !r.ready {
			m.due.set(r, now.Add(m.policy.after(callError{}, now)))
		}
	case CallSyncTerminatingPod:
		m.setState(r, StateTerminated, now)
		m.closeDone(r)
		r.ready = true
	case CallSyncTerminatingOrphan:
		if r.hasConfig {
			return // a spec arrived and is ready: full teardown
		}
		m.drop(r, now)
	case CallSyncTerminatedPod:
		m.finish(r, now)
	}
}

// finish moves the pod to StateFinished and keeps its record as a tombstone.
func (m *machine) finish(r *record, now time.Time) {
	m.setState(r, StateFinished, now)
	m.vacate(r, now)
}

// drop forgets the pod.
func (m *machine) drop(r *record, now time.Time) {
	m.setState(r, StateUnknown, now)
	m.vacate(r, now)
	delete(m.records, r.uid)
	if r.actedAt.After(m.forgottenActedAt) {
		m.forgottenActedAt = r.actedAt
	}
}

// vacate frees the resources of a pod that gets no further call. The next waiter gets its name.
func (m *machine) vacate(r *record, now time.Time) {
	m.closeDone(r)
	r.active, r.pending, r.hasPending, r.ready = spec{}, spec{}, false, false
	m.out.release = append(m.out.release, r.uid)
	if r.static {
		m.names.release(r.fullName(), r.uid)
		m.wake(r.fullName(), now)
	}
}

// wake starts the next pod that waits for a name.
func (m *machine) wake(name string, now time.Time) {
	if uid := m.names.next(name); uid != "" {
		m.advance(m.records[uid], now)
	}
}

// closeDone closes the Done channels of all kills.
func (m *machine) closeDone(r *record) {
	m.out.done = append(m.out.done, r.done...)
	r.done, r.status = nil, nil
}

// tick handles each pod that is due at now: it requests the newest update, or repeats the last
// one.
func (m *machine) tick(now time.Time) {
	for r, ok := m.due.First(); ok && !r.due.After(now); r, ok = m.due.First() {
		if m.hasOnDue && !r.undesired && r.hasConfig {
			// Due again, in case no update arrives.
			m.out.onDue = append(m.out.onDue, r.uid)
			m.due.set(r, now.Add(m.policy.after(callError{}, now)))
			continue
		}
		m.due.remove(r)
		m.replay(r, now)
	}
}

// replay makes a call with the last update.
func (m *machine) replay(r *record, now time.Time) {
	if !r.hasPending {
		r.active.typ, r.active.start = UpdateSync, now
		if r.state >= StateTerminationRequested {
			r.active.typ = UpdateKill
		}
	}
	r.ready = true
	m.advance(r, now)
}

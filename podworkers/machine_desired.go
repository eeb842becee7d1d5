package podworkers

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// syncKnownPods compares the records with the desired pods. It forgets finished pods that are
// undesired or need a restart, terminates other undesired pods, and returns the records that
// remain.
func (m *machine) syncKnownPods(desired []*v1.Pod, now time.Time) map[types.UID]KnownPod {
	m.known = true
	wanted := make(map[types.UID]struct{}, len(desired))
	for _, pod := range desired {
		if pod != nil {
			wanted[pod.UID] = struct{}{}
		}
	}
	unfinished := func(r *record) bool {
		_, ok := wanted[r.uid]
		r.undesired = !ok
		return r.undesired || r.restart
	}
	for _, r := range m.inOrder(unfinished) {
		switch {
		case r.state == StateFinished:
			m.drop(r, now)
		case r.undesired && r.state == StateWaiting: // the runtime does not list it
			m.drop(r, now) // no pod starts in its place: its name has a holder, or no call begins
		case r.undesired:
			m.end(r, now)
		}
	}
	return m.knownPods()
}

// forget drops one finished pod for which a restart was requested, and reports whether it did.
func (m *machine) forget(uid types.UID, now time.Time) bool {
	r := m.records[uid]
	if r == nil || r.state != StateFinished || !r.restart {
		return false
	}
	m.drop(r, now)
	return true
}

// end requests the termination of an undesired pod. If that was done before, it repeats a failed
// call, which no other code does for such a pod. It skips running calls and recent failures,
// because SyncKnownPods may be called often.
func (m *machine) end(r *record, now time.Time) {
	r.deleted = true
	if r.state < StateTerminationRequested {
		m.requestTermination(r, nil, now)
	} else if r.call != CallNone || now.Before(r.failedAt.Add(hotRetry)) {
		return
	}
	m.replay(r, now)
}

func (m *machine) knownPods() map[types.UID]KnownPod {
	known := make(map[types.UID]KnownPod, len(m.records))
	for uid, r := range m.records {
		known[uid] = KnownPod{State: coarse(r.state), Undesired: r.undesired, HasConfig: r.hasConfig, Static: r.static}
	}
	return known
}

// mirrorTerminating reports whether a static pod of this full name is terminating and still owns
// the name.
func (m *machine) mirrorTerminating(fullName string) bool {
	slot := m.names[fullName]
	if slot == nil {
		return false
	}
	for _, uid := range slot.holders {
		if s := m.records[uid].state; s == StateTerminationRequested || s == StateTerminating {
			return true
		}
	}
	return false
}

// podState describes one pod, without the step, which the shell adds.
func (m *machine) podState(uid types.UID) PodState {
	r := m.records[uid]
	if r == nil {
		return PodState{UID: uid, DesiredKnown: m.known}
	}
	next := r.due
	if m.isShut {
		next = time.Time{}
	}
	return PodState{
		UID: uid, Namespace: r.namespace, Name: r.name,
		State: r.state, DesiredKnown: m.known, Since: r.since, Pod: r.active.pod,
		Static: r.static, Undesired: r.undesired, RuntimeOnly: r.runtimeOnly(),
		Deleted: r.deleted, Evicted: r.evicted, RestartRequested: r.restart,
		GracePeriodSeconds: r.grace.seconds,
		Call:               r.call, CallSince: r.callSince, CancelledAt: r.cancelledAt,
		LastError: r.lastErr, LastErrorAt: r.lastErrAt,
		NextRetry: next, WaitsFor: m.waitsFor(r),
	}
}

func (m *machine) waitsFor(r *record) string {
	switch {
	case r.call != CallNone:
		return r.call.String()
	case r.state == StateFinished && r.restart:
		return "SyncKnownPods with it, to restart it"
	case r.state == StateFinished:
		return "nothing, until no source names it (SyncKnownPods without it)"
	case m.isShut:
		return "nothing: the agent stops"
	case r.lastErr != nil:
		return "the next attempt"
	case !r.due.IsZero():
		return "changes or the next resync"
	}
	if uid := m.names.blocker(r.fullName(), r.uid); uid != "" && r.static && r.state == StateWaiting {
		return "the static pod " + string(uid) + " with the same full name"
	}
	if !m.isOpen {
		return "Run"
	}
	return ""
}

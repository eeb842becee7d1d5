package writer

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/internal/podstatus"
)

type urgency int8

const (
	urgentEnd        urgency = iota // the pod's end, or its deletion
	urgentTransition                // another phase, or another Ready
	urgentDetail                    // all other changes
)

func (u urgency) String() string {
	return [...]string{"end of the pod", "phase or readiness", "details"}[u]
}

// slot tracks one pod's status at one sink. Its state consists of content, flight and wait. It
// selects the calls of the sink and makes none: it has no clock, lock or I/O.
//
// A write is a series of calls: next selects each, done records its result. The status may change
// at any time; the next call uses the newest one.
//
// The sink's status is read once, or taken from the pod that came from the sink, and then follows
// from results of writes and from observations. After a failure it is unknown and read again: the
// failed call may have taken effect, and a patch against the older status would not revert that.
// The base can be older than the sink's status, because others write too. Then a patch omits at
// most their changes, its result contains them, and they are overwritten at the next resync.
type slot struct {
	// receives is true for a Receiver, which gets whole statuses. mirrors is true if static pods
	// are written to their mirrors.
	receives, mirrors bool
	// origin is true while the pod's own status is the sink's, because no call was made yet.
	origin bool

	// pod is the newest pod of this node. status is the newest status, shared and never changed.
	// version counts changes and requests to write.
	pod     *v1.Pod
	status  *v1.PodStatus
	version uint64
	// finished is true if the pod has neither containers nor resources any longer, deleting if it
	// has a deletion request.
	finished, deleting bool
	// dropped is true if the slot has only the deletion of a dropped pod, for a DeletionReceiver.
	dropped bool

	// ref identifies the pod to write. Its UID is empty for a static pod without a mirror. mirror
	// is true if it is a mirror, lastMirror its UID in the newest facts.
	ref        status.Ref
	mirror     bool
	lastMirror types.UID

	// base is the status of the sink, nil while it is unknown. seen is the newest known phase and
	// readiness of the sink. kept is a status that the sink kept after a patch that should have
	// changed it.
	base *base
	seen phaseReady
	kept *v1.PodStatus

	content content
	// since is the time of the first change that no call includes, writing of the first change in
	// the current call. behind is the delay of the changes that the current write has brought to
	// the sink; only that write uses it.
	since, writing time.Time
	behind         time.Duration

	flight flight

	wait wait
	// at is the time of the next call; zero means at once.
	at    time.Time
	endBy time.Time
	// failures counts failed calls since the last complete write, err is the last error, failedAs
	// the urgency of the failed call.
	failures int
	failedAs urgency
	err      error
}

// base is the node agent's part of a pod at a sink.
type base struct {
	version  string
	deleting bool
	status   *v1.PodStatus
}

// phaseReady is the part of a status whose changes are transitions.
type phaseReady struct {
	phase v1.PodPhase
	ready v1.ConditionStatus
}

func phaseReadyOf(s *v1.PodStatus) phaseReady {
	p := phaseReady{phase: s.Phase}
	if c := podfacts.Condition(s.Conditions, v1.PodReady); c != nil {
		p.ready = c.Status
	}
	return p
}

func (s *slot) apply(e event) {
	t := &transitions[e]
	s.content = t.next[s.content]
	if s.wait&t.ends != 0 {
		s.postpone(0, time.Time{})
	}
}

func (s *slot) postpone(w wait, until time.Time) { s.wait, s.at = w, until }

// recheckLater schedules another comparison of an accepted status.
func (s *slot) recheckLater(w wait, now time.Time) {
	if s.content == accepted {
		s.apply(recheck)
		s.postpone(w, now.Add(resync))
	}
}

// replace sets pod and status without a write.
func (s *slot) replace(pod *v1.Pod, newest *v1.PodStatus) {
	s.pod, s.status = pod, newest
	if s.mirror = s.mirrors && podfacts.IsStatic(pod); !s.mirror {
		s.ref = status.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	}
}

func (s *slot) set(pod *v1.Pod, newest *v1.PodStatus, now time.Time) {
	s.replace(pod, newest)
	s.deleting = s.deleting || pod.DeletionTimestamp != nil
	s.finished = s.finished && !podfacts.IsStatic(pod) // a static pod can restart
	s.changed(now)
	if s.failures == 0 || s.urgency() < s.failedAs {
		s.apply(urgentSet)
	} else {
		s.apply(statusSet)
	}
}

// resend makes a Receiver receive a status again.
func (s *slot) resend(now time.Time) {
	s.changed(now)
	s.apply(recheck)
}

func (s *slot) changed(now time.Time) {
	s.version++
	if s.since.IsZero() {
		s.since = now
	}
}

// flush requests a comparison, or a call of Receive, without a wait.
func (s *slot) flush() {
	s.version++
	s.endBy = time.Unix(0, 0)
	s.apply(flushed)
}

// urgency returns the urgency of the difference to the sink.
func (s *slot) urgency() urgency {
	wanted := phaseReadyOf(s.status)
	switch {
	case podfacts.IsTerminalPhase(wanted.phase) && !podfacts.IsTerminalPhase(s.seen.phase), s.toDelete():
		return urgentEnd
	case wanted != s.seen:
		return urgentTransition
	default:
		return urgentDetail
	}
}

func (s *slot) toWrite() bool { return s.content == pending || s.content == unverified }

func (s *slot) toDelete() bool {
	if s.dropped {
		return true
	}
	if s.content == restored || s.content == removed || s.mirror || s.receives || !s.finished || !s.isDeleting() {
		return false
	}
	return s.base == nil || podfacts.IsTerminalPhase(s.base.status.Phase)
}

func (s *slot) isDeleting() bool { return s.deleting || s.base != nil && s.base.deleting }

// mustAcceptEnd reports whether the sink can and must still accept the pod's end.
func (s *slot) mustAcceptEnd() bool {
	return (s.content == pending || s.toDelete()) && s.wait != absent && (!s.mirror || s.ref.UID != "")
}

// schedule reports whether a call is necessary, with its urgency and earliest time. Zero means at
// once.
func (s *slot) schedule() (u urgency, at time.Time, ok bool) {
	if s.flight != idle || !s.toWrite() && !s.toDelete() {
		return 0, time.Time{}, false
	}
	return s.urgency(), s.at, true
}

// setBase sets the base from a pod of the sink, without data of other components.
func (s *slot) setBase(obj *v1.Pod) {
	part := podstatus.Normalize(s.pod, podstatus.Own(&obj.Status))
	s.base = &base{version: obj.ResourceVersion, deleting: obj.DeletionTimestamp != nil, status: &part}
	s.seen, s.origin = phaseReadyOf(&part), false
}

package writer

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
)

// urgency orders pods whose statuses are to be written.
type urgency int8

const (
	urgentEnd        urgency = iota // the pod's end, or its deletion
	urgentTransition                // another phase, or another Ready
	urgentDetail                    // everything else
	urgencies
)

func (u urgency) String() string {
	return [...]string{"the end of the pod", "phase or readiness", "details"}[u]
}

// slot is one pod's status on its way to one sink: the newest version, what the
// sink is known to have, and what has to be done about the difference. It decides
// and does nothing: no clock, no lock, no I/O.
//
// A turn is a series of calls of the sink: next says which is the first or the
// next one, done takes in what came of it. Before, between and after, the status
// may change, and the next call is about the newest one.
//
// What the sink has is asked for once, or taken from the pod that came from there, and then known from its answers to writes
// and from what is observed there. After any failure it is unknown and asked for
// again: a write whose outcome is open may have taken effect, and a difference
// that is taken to what it replaced would leave it standing. What is known can be
// older than what is there, since others write too; then a difference leaves out
// at most what they changed, the answer to it shows that, and it is written at the
// next resync.
type slot struct {
	// pod is the newest known one, as it runs on this node.
	pod *v1.Pod
	// receives: the sink is a Receiver. It is handed the status as it is, and not
	// asked for anything.
	receives bool
	// ref is where to write to. Its UID is empty while the mirror is not known.
	ref    status.Ref
	mirror bool
	// mirrorTold is the mirror's UID that facts told last.
	mirrorTold types.UID

	// status is the newest one, shared and never changed; nil: none.
	status *v1.PodStatus
	// version counts the statuses that were set, written is the newest one that
	// the sink has accepted. A status that was only restored has version 0.
	version, written uint64
	// finished: nothing is left of the pod. deleting: it is to be deleted.
	finished, deleting bool

	// base is what the sink has, nil when that is not known.
	base *known
	// fromPod: it was never known, and is what the pod says that comes from the sink.
	fromPod bool
	// seen is what the sink was last known to have, also when base is nil.
	seen phaseReady
	// settled is what the sink has and keeps, although it was told otherwise.
	settled *v1.PodStatus
	// differs: the sink has not what it was told. check: what it has and what is
	// wanted have to be compared, although the newest version was accepted.
	differs, check bool
	// held: the terminal phase is kept back. heldSince is since when that of a pod that is
	// to be deleted is.
	held      bool
	heldSince time.Time
	// ready: there may be something to do. Otherwise the slot waits for something
	// to happen.
	ready bool

	// busy: a turn is in progress.
	busy bool
	// since is when the first change came that the sink does not have; sinceNext
	// is the same for what came after the call in progress was made.
	since, sinceNext time.Time
	// behind is how long the sink was behind before it accepted what it has last;
	// whoever reports that resets it.
	behind time.Duration

	// failures counts the calls that failed since the last turn that went well;
	// retryAt is when the next may be made.
	failures int
	failedAs urgency
	retryAt  time.Time
	err      error
	// absent: the sink has no such pod. gone: it had, and it was removed.
	absent, gone bool
}

// known is what the sink has of a pod, without what is not the node agent's.
type known struct {
	uid      types.UID
	version  string
	deleting bool
	status   *v1.PodStatus
}

// phaseReady is what makes a change of a status a transition.
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

// facts are what a slot needs to know from outside for a decision.
type facts struct {
	// pod is the newest one, nil if unknown.
	pod *v1.Pod
	// mirrors: static pods have mirrors. mirror is this pod's, if it has one.
	mirrors bool
	mirror  *v1.Pod
	// mayStillRun: containers may still run.
	mayStillRun bool
	now         time.Time
}

// set takes in a new version of the status.
func (s *slot) set(pod *v1.Pod, newest *v1.PodStatus, now time.Time) {
	s.pod, s.status, s.gone = pod, newest, false
	s.version++
	s.deleting = s.deleting || pod.DeletionTimestamp != nil
	s.finished = s.finished && !podfacts.IsStatic(pod) // a static pod can begin anew
	s.behindSince(now)
	// It is worth more than what failed, or the pause was that of a pod about to end.
	if s.failures == 0 || s.urgency() < s.failedAs {
		s.retryAt = time.Time{}
	}
	s.ready = true
}

// again has a status handed over that the sink may have already.
func (s *slot) again(now time.Time) {
	s.check, s.ready = true, true
	s.behindSince(now)
}

// flush has the newest status compared or handed over now.
func (s *slot) flush() {
	s.check, s.ready, s.retryAt = true, true, time.Time{}
	s.heldSince = time.Unix(0, 0) // it is not waited any more
}

// behindSince notes that there is something that the sink does not have.
func (s *slot) behindSince(now time.Time) {
	if s.since.IsZero() {
		s.since = now
	}
	if s.sinceNext.IsZero() {
		s.sinceNext = now // a call that begins later resets it
	}
}

// urgency is that of what the sink does not have.
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

// toWrite tells whether the sink has to be told something.
func (s *slot) toWrite() bool {
	return s.version > 0 && (s.version > s.written || s.check)
}

// toDelete tells whether the sink's pod is to be removed, as far as is known.
func (s *slot) toDelete() bool {
	if s.mirror || s.receives || !s.finished || !s.deleting && (s.base == nil || !s.base.deleting) {
		return false
	}
	return s.base == nil || podfacts.IsTerminalPhase(s.base.status.Phase)
}

// untold tells whether the sink does not know yet how the pod ended, and can be told.
func (s *slot) untold() bool {
	return !s.gone && (s.version > s.written || s.toDelete()) && !s.absent && (!s.mirror || s.ref.UID != "")
}

// due tells whether there is something to do, how urgent it is, and when it may be
// done; the zero time is at once.
func (s *slot) due() (u urgency, at time.Time, ok bool) {
	if s.busy || !s.ready || s.version == 0 {
		return 0, time.Time{}, false
	}
	return s.urgency(), s.retryAt, true
}

// next is the next call to make, if there is one now. Afterwards done has to be
// called.
func (s *slot) next(f facts) (call, bool) {
	s.aim(f)
	f.mayStillRun = f.mayStillRun && !s.finished
	for s.ref.UID != "" && (s.toWrite() || s.toDelete()) {
		if s.retryAt.After(f.now) {
			return call{}, false // it stays ready
		}
		if s.receives {
			return s.receive(), true
		}
		if s.base == nil && s.fromPod && !podfacts.IsStatic(s.pod) {
			s.fromPod = false
			s.learn(s.pod)
		}
		switch {
		case s.base == nil:
			return call{kind: callGet, ref: s.ref}, true
		case !s.toWrite():
			return call{kind: callDelete, ref: s.ref}, true
		}
		if c, ok := s.patch(f); ok {
			return c, true
		}
	}
	s.ready = false
	return call{}, false
}

// patch is the call that tells the sink the newest status. If the sink has it
// already, there is none, and that is noted.
func (s *slot) patch(f facts) (call, bool) {
	old, new := s.base.status, s.merged(f)
	s.held = f.mayStillRun && podfacts.IsTerminalPhase(s.status.Phase) && !podfacts.IsTerminalPhase(old.Phase)
	if s.endIsNear(f.now) {
		s.retryAt = s.heldSince.Add(nearEnd)
		return call{}, false
	}
	s.check = false
	if status.Equal(old, &new) {
		s.accepted(s.version, f.now)
		return call{}, false
	}
	s.sinceNext = time.Time{}
	return call{kind: callPatch, ref: s.ref, version: s.version, old: old, new: &new}, true
}

// nearEnd is how long a write waits at most for the end of a pod that is to be deleted and
// whose containers have ended. Nobody sends it anything any more, and what it still holds is
// mostly released within milliseconds: then one write tells everything.
const nearEnd = 500 * time.Millisecond

// endIsNear tells whether the write about a pod waits for its end.
func (s *slot) endIsNear(now time.Time) bool {
	switch {
	case !s.held || !s.deleting || s.failures > 0:
		s.heldSince = time.Time{}
		return false
	case s.heldSince.IsZero():
		s.heldSince = now
	}
	return now.Sub(s.heldSince) < nearEnd
}

// receive is the call that hands over the newest status.
func (s *slot) receive() call {
	s.check, s.sinceNext = false, time.Time{}
	return call{kind: callReceive, ref: s.ref, version: s.version, pod: s.pod, new: s.status}
}

// merged is what is wanted of the sink, given what it has.
func (s *slot) merged(f facts) v1.PodStatus {
	there := &v1.Pod{Status: *s.base.status}
	if podfacts.IsStatic(s.pod) { // which may begin anew
		there.Annotations = map[string]string{podfacts.ConfigMirror: ""}
	}
	wanted := status.Own(s.status)
	return status.Merge(there, &wanted, f.mayStillRun, f.now)
}

// takeBehind returns how long the sink was behind, once.
func (s *slot) takeBehind() time.Duration {
	behind := s.behind
	s.behind = 0
	return behind
}

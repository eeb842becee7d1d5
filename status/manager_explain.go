package status

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Explanation says how a pod's status stands with the sink.
type Explanation struct {
	// Why is a sentence for people: what is not written, and what it waits for.
	// Empty when there is nothing to say.
	Why string
	// Unwritten: the sink has not accepted the newest status. Since is when the
	// first change came that it does not have.
	Unwritten bool
	Since     time.Time
	// Writing: a call of the sink is in progress.
	Writing bool
	// Held: a terminal phase is kept back, since containers may still run.
	Held bool
	// Absent: the sink has no such pod. NoMirror: there is no mirror to write to.
	Absent, NoMirror bool
	// Refused: the sink keeps something else than it was told.
	Refused bool
	// Finished: nothing is left of the pod. Deleting: it is to be deleted.
	Finished, Deleting bool
	// Failures is how many calls failed in a row, Err why the last did, NextTry when
	// the next is made.
	Failures int
	Err      error
	NextTry  time.Time
}

// Explain tells how a pod's status stands with the sink. ok is false for a pod of
// which nothing is known.
func (m *Manager) Explain(uid types.UID) (x Explanation, ok bool) {
	uid = m.translate(uid)
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[uid]
	if e == nil {
		return Explanation{}, false
	}
	if m.cfg.Sink == nil {
		return Explanation{Finished: e.finished, Deleting: e.deleting}, true
	}
	return e.explain(time.Now()), true
}

func (s *slot) explain(now time.Time) Explanation {
	x := Explanation{
		Unwritten: s.version > s.written, Writing: s.busy, Held: s.held, Absent: s.absent,
		NoMirror: s.mirror && s.ref.UID == "", Refused: s.settled != nil,
		Finished: s.finished, Deleting: s.deleting || s.base != nil && s.base.deleting,
		Failures: s.failures, Err: s.err,
	}
	if x.Unwritten {
		x.Since = s.since
	}
	if s.retryAt.After(now) {
		x.NextTry = s.retryAt
	}
	x.Why = s.why(x)
	return x
}

func (s *slot) why(x Explanation) string {
	switch {
	case x.NoMirror && x.Unwritten:
		return "the static pod has no mirror to write to"
	case x.Absent:
		return "the sink has no pod of this name and UID"
	case x.Err != nil && x.Deleting && x.Finished:
		return "the pod could not be removed: " + x.Err.Error()
	case x.Err != nil:
		return "the status could not be written: " + x.Err.Error()
	case x.Held:
		return "its end is kept back while containers may still run"
	case x.Refused:
		return "the sink keeps other values than it was told"
	case x.Unwritten:
		return "it waits for its turn: " + s.urgency().String()
	case s.differs:
		return "somebody has changed it at the sink; it is written anew"
	case x.Finished && x.Deleting && !s.mirror:
		return "the pod waits to be removed"
	default:
		return ""
	}
}

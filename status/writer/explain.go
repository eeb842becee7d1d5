package writer

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Explanation says how a pod's status stands with a sink.
type Explanation struct {
	// Sink is the sink's name.
	Sink string
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
	// Absent: the sink has no such pod, or no more. NoMirror: there is no mirror to write to.
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

// Explain tells how a pod's status stands with each sink, in the order of
// Config.Sinks; nil for a pod of which nothing is known.
func (w *Writer) Explain(uid types.UID) []Explanation {
	uid = w.translate(uid)
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[uid]
	if e == nil {
		return nil
	}
	out := make([]Explanation, len(e.deliveries))
	for i, d := range e.deliveries {
		out[i] = d.explain(time.Now())
		out[i].Sink = d.target.name
		if !w.ran && out[i].Unwritten && out[i].Err == nil {
			out[i].Why = "it waits for Run"
		}
	}
	return out
}

func (s *slot) explain(now time.Time) Explanation {
	x := Explanation{
		Unwritten: s.version > s.written, Writing: s.busy, Held: s.held, Absent: s.absent || s.gone,
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
	case s.gone:
		return "the sink has removed the pod"
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

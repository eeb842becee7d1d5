package writer

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Explanation is the state of a pod's status at a sink.
type Explanation struct {
	// Sink is the sink's name.
	Sink string
	// Why is a sentence for people: the missing part and the reason. It is empty if
	// the sink is up to date.
	Why string
	// Unwritten is true if the sink has not accepted the newest status. Since is the time
	// of the first change that it does not have.
	Unwritten bool
	Since     time.Time
	// Refused is true if the sink keeps other values than were written.
	Refused bool
	// Failures is the number of failed calls in a row, Err the last error, NextTry the time
	// of the next call.
	Failures int
	Err      error
	NextTry  time.Time
}

// Explain returns the state of a pod's status at each sink, in the order of
// Config.Sinks, or nil for an unknown pod.
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
	x := Explanation{Why: s.why(), Unwritten: s.content == pending, Refused: s.kept != nil, Failures: s.failures, Err: s.err}
	if x.Unwritten {
		x.Since = s.since
		if !s.writing.IsZero() {
			x.Since = s.writing
		}
	}
	if s.at.After(now) {
		x.NextTry = s.at
	}
	return x
}

func (s *slot) why() string {
	switch {
	case s.content == removed:
		return "the sink has removed the pod"
	case s.mirror && s.ref.UID == "" && s.content == pending:
		return "the static pod has no mirror to write to"
	case s.wait == absent:
		return "the sink has no pod of this name and UID"
	case s.err != nil && s.finished && s.isDeleting():
		return "the pod could not be removed: " + s.err.Error()
	case s.err != nil:
		return "the status could not be written: " + s.err.Error()
	case s.wait == runs || s.wait == nearEnd:
		return "its end waits while containers may still run"
	case s.kept != nil:
		return "the sink keeps other values than were written"
	case s.content == pending:
		return "it waits for its turn: " + s.urgency().String()
	case s.wait == drifted:
		return "others have changed it at the sink; it is written again"
	case s.finished && s.isDeleting() && !s.mirror:
		return "the pod waits to be removed"
	default:
		return ""
	}
}

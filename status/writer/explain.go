package writer

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
)

// Explain returns the state of a pod's status at each sink, in the order of Config.Sinks, or nil
// for an unknown pod. Since is the time of the first change that the sink does not have. It is
// zero if the sink has accepted the newest status.
func (w *Writer) Explain(uid types.UID) []podwright.Explanation {
	uid = w.translate(uid)
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entries[uid]
	if e == nil {
		return nil
	}
	out := make([]podwright.Explanation, len(e.deliveries))
	for i, d := range e.deliveries {
		if deletion := d.target.deletions[uid]; deletion != nil {
			d = deletion
		}
		out[i] = d.explain(time.Now())
		out[i].Part = "status at " + d.target.name
		if !w.ran && d.content == pending && d.err == nil {
			out[i].Why = "it waits for Run"
		}
	}
	return out
}

func (s *slot) explain(now time.Time) podwright.Explanation {
	x := podwright.Explanation{Why: s.why(), Err: s.err}
	if s.content == pending {
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
		return "the static pod has no mirror pod"
	case s.wait == absent:
		return "the sink has no pod of this name and UID"
	case s.err != nil && (s.dropped || s.finished && s.isDeleting()):
		return "the deletion failed"
	case s.err != nil:
		return "the status could not be written"
	case s.wait == runs || s.wait == nearEnd:
		return "the pod's end is not written while containers may still run"
	case s.kept != nil:
		return "the sink changed values of the written status"
	case s.content == pending:
		return "the write is queued: " + s.urgency().String()
	case s.wait == drifted:
		return "another client changed the status; it is written again"
	case s.dropped || s.finished && s.isDeleting() && !s.mirror:
		return "the deletion is queued"
	default:
		return ""
	}
}

package probe

import (
	"fmt"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
)

// Reasons of events.
const (
	// reasonUnhealthy is the reason of the event for a probe that failed or could not be carried
	// out.
	reasonUnhealthy = "Unhealthy"
	// reasonProbeWarning is the reason of the event for a success with a warning.
	reasonProbeWarning = "ProbeWarning"
)

const (
	maxOutput = 10 << 10 // bytes of output in an event
	maxKept   = 256      // bytes of output kept for Explain
)

func (r *runner) report(x *execution) {
	if !r.count(x) {
		return
	}
	w := x.worker
	switch verdict := x.verdict(); {
	case x.err != nil:
		r.logError(x)
		r.event(w, reasonUnhealthy, fmt.Sprintf("%s probe errored and resulted in unknown state: %v", w.rules.typ, x.err))
	case verdict == Failure:
		r.event(w, reasonUnhealthy, fmt.Sprintf("%s probe failed: %s", w.rules.typ, x.result.Output))
	case verdict == Warning:
		r.event(w, reasonProbeWarning, fmt.Sprintf("%s probe warning: %s", w.rules.typ, x.result.Output))
	}
}

// count calls Metrics.OnProbe. It returns false, without the call, for a cancelled execution.
func (r *runner) count(x *execution) bool {
	r.reporting.Lock()
	defer r.reporting.Unlock()
	r.mu.Lock()
	counts := x.worker.phase == executing && r.ctx.Err() == nil
	if counts {
		x.worker.counted = true
	}
	r.mu.Unlock()
	if counts && r.cfg.Metrics.OnProbe != nil {
		r.cfg.Metrics.OnProbe(Probed{
			Series: x.worker.series(), Handler: x.pool.handler, Verdict: x.verdict(),
			Took: x.ended.Sub(x.began), Late: x.began.Sub(x.due),
		})
	}
	return counts
}

func (m *Manager) reportRemoved(removed []*worker) {
	if m.cfg.Metrics.OnRemove == nil || len(removed) == 0 {
		return
	}
	m.reporting.Lock()
	defer m.reporting.Unlock()
	for _, w := range removed {
		m.mu.Lock()
		counted := w.counted
		w.counted = false
		m.mu.Unlock()
		if counted {
			m.cfg.Metrics.OnRemove(w.series())
		}
	}
}

func (r *runner) logError(x *execution) {
	if stack := run.StackOf(x.err); stack != "" {
		r.log.Error("Prober panicked", append(x.worker.logged(), "err", x.err, "stack", stack)...)
		return
	}
	r.log.Warn("Probe not carried out", append(x.worker.logged(), "err", x.err)...)
}

func (m *Manager) event(w *worker, reason, message string) {
	if m.cfg.Event == nil {
		return
	}
	m.cfg.Event(w.reference(), v1.EventTypeWarning, reason, cut(message, maxOutput))
}

func (w *worker) reference() v1.ObjectReference {
	ref := podfacts.Reference(w.spec)
	ref.FieldPath = podfacts.FieldPath(w.spec, w.container.Name)
	return ref
}

func (w *worker) series() Series {
	return Series{Type: w.rules.typ, UID: w.pod.uid, Namespace: w.spec.Namespace, Pod: w.spec.Name, Container: w.container.Name}
}

// describe returns a description of the probe for error messages.
func (w *worker) describe() string {
	return fmt.Sprintf("the %s probe (%s) of container %s of pod %s/%s (%s)",
		strings.ToLower(w.rules.typ.String()), w.pool.handler, w.container.Name, w.spec.Namespace, w.spec.Name, w.pod.uid)
}

func (w *worker) logged() []any {
	return []any{"pod", w.spec.Namespace + "/" + w.spec.Name, "podUID", w.pod.uid, "container", w.container.Name,
		"probe", strings.ToLower(w.rules.typ.String()), "handler", w.pool.handler}
}

// text returns the start of the output or error. It is a copy, because the output may be large.
func (x *execution) text() string {
	if x.err != nil {
		return strings.Clone(cut(x.err.Error(), maxKept))
	}
	return strings.Clone(cut(x.result.Output, maxKept))
}

// cut truncates a text to at most limit bytes, at a character boundary.
func cut(text string, limit int) string {
	if len(text) > limit {
		for limit > 0 && !utf8.RuneStart(text[limit]) {
			limit--
		}
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

package podworkerstest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// Trace is a list of events in order.
type Trace []podworkers.TraceEvent

// String returns the trace as text, one line per event with the time since the first one.
// Decisions are indented below their input.
func (t Trace) String() string {
	p := newPrinter()
	var b strings.Builder
	for _, e := range t {
		indent := "  "
		if e.Kind.Input() {
			indent = ""
		}
		fmt.Fprintf(&b, "%-8s %s%s\n", p.since(e.At), indent, p.text(e))
	}
	return b.String()
}

// printer formats events. Times are relative to the first event; done channels are numbered in
// order of appearance.
type printer struct {
	begin time.Time
	done  map[chan<- struct{}]int
}

func newPrinter() *printer { return &printer{done: map[chan<- struct{}]int{}} }

func (p *printer) since(at time.Time) time.Duration {
	if p.begin.IsZero() {
		p.begin = at
	}
	return at.Sub(p.begin).Round(time.Millisecond)
}

func (p *printer) number(done chan<- struct{}) int {
	if p.done[done] == 0 {
		p.done[done] = len(p.done) + 1
	}
	return p.done[done]
}

func (p *printer) text(e podworkers.TraceEvent) string {
	switch e.Kind {
	case podworkers.TraceUpdate:
		return p.update(e)
	case podworkers.TraceKnown:
		return "known" + join(e.Desired)
	case podworkers.TraceForget:
		return fmt.Sprintf("forget %s", e.UID)
	case podworkers.TraceRun:
		return "run"
	case podworkers.TraceStop:
		return "stop"
	case podworkers.TraceEnd:
		return fmt.Sprintf("%s: %s ends%s", e.UID, e.Call, ending(e))
	case podworkers.TraceState:
		return fmt.Sprintf("%s: %s -> %s", e.UID, e.From, e.To)
	case podworkers.TraceCancel:
		return fmt.Sprintf("%s: cancelled: %v", e.UID, e.Err)
	case podworkers.TraceDone:
		return fmt.Sprintf("done %d is closed", p.number(e.Done))
	case podworkers.TraceStart:
		return fmt.Sprintf("%s: %s begins%s", e.UID, e.Call, p.work(e))
	case podworkers.TraceAsk:
		return fmt.Sprintf("%s: OnDue is called", e.UID)
	}
	return ""
}

func join(uids []types.UID) string {
	var b strings.Builder
	for _, uid := range uids {
		b.WriteString(" " + string(uid))
	}
	return b.String()
}

// update formats an update like a script.
func (p *printer) update(e podworkers.TraceEvent) string {
	u := e.Update
	words := []string{string(u.Type), string(e.UID)}
	add := func(is bool, format string, args ...any) {
		if is {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	if u.Pod != nil {
		add(u.Pod.ResourceVersion != "", "rev=%s", u.Pod.ResourceVersion)
		add(u.Pod.DeletionTimestamp != nil, "deleting")
		add(u.Pod.Status.Phase != "", "phase=%s", u.Pod.Status.Phase)
		add(e.Stopped, "dead")
	} else {
		words[0] = "orphan"
	}
	if k := u.Kill; k != nil {
		add(k.GracePeriodSeconds != nil, "override=%d", deref(k.GracePeriodSeconds))
		add(k.Evict, "evict")
		if k.Done != nil {
			add(true, "done=%d", p.number(k.Done))
		}
		add(k.Status != nil, "status=%s", reasonOf(k.Status))
	}
	return strings.Join(words, " ")
}

func deref(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// work formats the distinguishing parts of a call.
func (p *printer) work(e podworkers.TraceEvent) string {
	var b strings.Builder
	w := e.Work
	if w.Pod != nil && w.Pod.ResourceVersion != "" {
		fmt.Fprintf(&b, " rev=%s", w.Pod.ResourceVersion)
	}
	if w.GracePeriodSeconds != 0 {
		fmt.Fprintf(&b, " grace=%d", w.GracePeriodSeconds)
	}
	if w.Evicted && e.Call == podworkers.CallSyncTerminatingPod {
		b.WriteString(" evicted")
	}
	if w.Status != nil {
		fmt.Fprintf(&b, " status=%s", reasonOf(w.Status))
	}
	if !w.ActedAt.IsZero() {
		fmt.Fprintf(&b, " acted=%s", p.since(w.ActedAt))
	}
	return b.String()
}

// reasonOf returns the reason that a status function sets, or "?" if the function panics.
func reasonOf(change func(*v1.PodStatus)) (reason string) {
	defer func() {
		if recover() != nil {
			reason = "?"
		}
	}()
	var status v1.PodStatus
	change(&status)
	if status.Reason == "" {
		return "yes"
	}
	return status.Reason
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func ending(e podworkers.TraceEvent) string {
	var panicked *podworkers.PanicError
	switch {
	case errors.As(e.Err, &panicked):
		return fmt.Sprintf(": panic: %v", panicked.Value)
	case e.Err != nil:
		return ": " + oneLine(e.Err)
	case e.Terminal:
		return ", terminal"
	}
	return ""
}

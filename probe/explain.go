package probe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright"
)

// State is what a probe is doing.
type State string

// The states.
const (
	// StateScheduled is that of a probe that is executed regularly, until the next
	// time.
	StateScheduled State = "Scheduled"
	// StateWaiting is that of one that must not be executed, for the reason in
	// Worker.Why.
	StateWaiting State = "Waiting"
	// StateQueued is that of one whose time has come while its handler's budget is
	// used up.
	StateQueued State = "Queued"
	// StateExecuting is that of one that is being executed.
	StateExecuting State = "Executing"
	// StateEnded is that of one that has nothing to do any more, for the reason in
	// Worker.Why.
	StateEnded State = "Ended"
)

// Worker explains one probe.
type Worker struct {
	Container string
	// ContainerID is the instance that the probe is about, "" before there is one.
	ContainerID string
	Type        Type
	Handler     Handler
	State       State
	// Why tells why it waits or has ended, "" otherwise.
	Why string
	// Since is when the execution that is in progress began, or was to begin if it
	// is queued.
	Since time.Time
	// Next is when the probe looks at its container again, zero if it is busy or
	// has ended.
	Next time.Time
	// Period and Timeout are how often it is executed and how long it may take.
	Period, Timeout time.Duration

	// Result is the result that counts, Unknown if there is none.
	Result Verdict
	// Consecutive is how many executions in a row were Successes or Failures, as
	// Last tells, and Threshold how many make a result.
	Consecutive, Threshold int32

	// LastAt is when the last execution began, zero if there was none. The other
	// fields tell how long it took, how late it was, what it found (Unknown: it
	// could not be carried out), and the begin of its output or error.
	LastAt   time.Time
	LastTook time.Duration
	LastLate time.Duration
	Last     Verdict
	Output   string
}

// Explain returns the state of each probe of a pod, in the order of Workers.
func (m *Manager) Explain(uid types.UID) (out []podwright.Explanation) {
	for _, w := range m.Workers(uid) {
		e := podwright.Explanation{Part: fmt.Sprintf("%s probe of %s", strings.ToLower(w.Type.String()), w.Container), Since: w.Since, Why: w.Why, NextTry: w.Next}
		switch w.State {
		case StateQueued:
			e.Why = "the budget of its handler is used up"
		case StateExecuting:
			e.Step = "probe"
		}
		if w.Last == Failure {
			e.Err = errors.New(cmp.Or(w.Output, "the probe failed"))
		}
		out = append(out, e)
	}
	return out
}

// Workers returns the probes of a pod by container and type. It is nil for an unknown pod,
// and for a pod without probes.
func (m *Manager) Workers(uid types.UID) []Worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	if p == nil {
		return nil
	}
	out := make([]Worker, 0, len(p.workers))
	for _, w := range p.workers {
		out = append(out, m.explain(w))
	}
	slices.SortFunc(out, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Type, b.Type))
	})
	return out
}

func (m *Manager) explain(w *worker) Worker {
	out := Worker{
		Container: w.container.Name, ContainerID: w.id, Type: w.rules.typ, Handler: w.pool.handler, Why: w.why,
		Period: w.timing.Period, Timeout: w.timing.Timeout,
		Result: w.stored, Consecutive: w.run, Threshold: w.rules.failures,
		LastAt: w.latest.at, LastTook: w.latest.took, LastLate: w.latest.late, Last: w.latest.verdict, Output: w.latest.text,
	}
	if w.last == Success {
		out.Threshold = w.rules.successes
	}
	switch w.phase {
	case idle, looking, gone:
		out.State, out.Next = StateWaiting, w.at
		switch {
		case !m.started:
			out.Why = whyBeforeRun
		case w.why == "":
			out.State = StateScheduled
		}
	case queued:
		out.State, out.Since = StateQueued, w.due
	case executing:
		out.State = StateExecuting
		if x := m.inflight[w.key()]; x != nil {
			out.Since = x.began
		}
	case ended:
		out.State = StateEnded
	}
	return out
}

// Pools tells how the budget of each handler is used.
func (m *Manager) Pools() []Pool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	out := make([]Pool, 0, len(m.pools))
	for _, p := range m.pools {
		pool := p.describe(now)
		for _, x := range m.inflight {
			if x.pool == p && now.Sub(x.began) > maxTries*(x.worker.timing.Timeout+overtime) {
				pool.Stuck++
			}
		}
		out = append(out, pool)
	}
	slices.SortFunc(out, func(a, b Pool) int { return cmp.Compare(a.Handler, b.Handler) })
	return out
}

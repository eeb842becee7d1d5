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

// State is the current activity of a probe.
type State string

// The states of a probe.
const (
	// StateScheduled is the state of a probe that waits for its next regular execution.
	StateScheduled State = "Scheduled"
	// StateWaiting is the state of a probe that must not be executed now. Worker.Why is the
	// reason.
	StateWaiting State = "Waiting"
	// StateQueued is the state of a probe that is due while its handler's budget is used up.
	StateQueued State = "Queued"
	// StateExecuting is the state of a probe during its execution.
	StateExecuting State = "Executing"
	// StateEnded is the state of a probe without further executions. Worker.Why is the reason.
	StateEnded State = "Ended"
)

// Worker explains one probe.
type Worker struct {
	Container string
	// ContainerID is the ID of the probed instance, or "" without one.
	ContainerID string
	Type        Type
	Handler     Handler
	State       State
	// Why is the reason to wait or to end, otherwise "".
	Why string
	// Since is the start of the current execution, or its scheduled start if it is queued.
	Since time.Time
	// Next is the time of the next check of the container. It is zero if the probe is busy or has
	// ended.
	Next time.Time
	// Period is the time between executions, Timeout bounds one of them.
	Period, Timeout time.Duration

	// Result is the effective result, or Unknown without one.
	Result Verdict
	// Consecutive is the number of equal outcomes in a row, and Threshold the number that changes
	// the result.
	Consecutive, Threshold int32

	// LastAt is the start of the last execution, or zero. The next fields are its duration, its
	// delay, its outcome (Unknown: it could not be carried out), and the start of its output or
	// error.
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
			e.Why = "too many probes of its handler are running"
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

// Workers returns the probes of a pod by container and type. It returns nil for an unknown pod.
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
	case idle, reading, phaseRemoved:
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

// Pools returns the usage of each handler's budget.
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

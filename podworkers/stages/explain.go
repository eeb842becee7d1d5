package stages

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// StageState says how one stage stands for a pod. Its fields are those of
// podworkers.PodState.
type StageState struct {
	Name   string
	Moment Moment
	State  State
	// Since is when the stage entered State.
	Since time.Time
	// CallSince is when the step that runs now began, zero if none runs. CancelledAt is
	// when its context ended, zero if it did not: one that goes on long after is stuck.
	CallSince   time.Time
	CancelledAt time.Time
	// LastError is how the last step failed, at LastErrorAt. Nil after success.
	LastError   error
	LastErrorAt time.Time
}

// String explains the stage in one line.
func (s StageState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", s.Name, s.State)
	for _, part := range []struct {
		text string
		at   time.Time
	}{{"since", s.Since}, {"running since", s.CallSince}, {"cancelled at", s.CancelledAt}} {
		if !part.at.IsZero() {
			fmt.Fprintf(&b, ", %s %s", part.text, part.at.Format(time.RFC3339))
		}
	}
	if s.LastError != nil {
		fmt.Fprintf(&b, ", last error: %v", s.LastError)
	}
	return b.String()
}

// Explain says how each stage stands for a pod, in the order of the list. It is nil
// for a pod for which this agent has called no stage, and for one that is gone.
func (l *List) Explain(uid types.UID) []StageState {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []StageState
	for i, s := range l.pods[uid] {
		out = append(out, StageState{
			Name: l.cfg.Stages[i].Name, Moment: l.cfg.Stages[i].Release,
			State: s.state, Since: s.since, CallSince: s.began, CancelledAt: s.cancelled,
			LastError: s.err, LastErrorAt: s.errAt,
		})
	}
	return out
}

package stages

import (
	"fmt"
	"time"
)

// Action is what a stage does for a pod.
type Action uint8

// The actions.
const (
	Prepare Action = iota + 1
	Release
)

// String returns the action as a verb.
func (a Action) String() string {
	switch a {
	case Prepare:
		return "prepare"
	case Release:
		return "release"
	default:
		return fmt.Sprintf("Action(%d)", uint8(a))
	}
}

// doing is the action as the step of an explanation.
func (a Action) doing() string {
	if a == Release {
		return "releasing"
	}
	return "preparing"
}

// State is how a stage stands for a pod, as far as this agent knows.
type State uint8

// The states.
const (
	// StateUnknown: this agent has done nothing with it. An earlier one may have.
	StateUnknown State = iota
	// StatePreparing: Prepare runs, or the last one has failed.
	StatePreparing
	// StatePrepared: Prepare has returned nil.
	StatePrepared
	// StateReleasing: Release runs, or the last one has failed.
	StateReleasing
	// StateReleased: Release has returned nil.
	StateReleased
)

var stateNames = [...]string{"Unknown", "Preparing", "Prepared", "Releasing", "Released"}

// String returns the name of the state.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// progress is how far a stage is for a pod. It is pure: the time is handed in.
type progress struct {
	state State
	since time.Time // of state
	// began is when the step that runs began, zero if none does; cancelled is when
	// its context ended.
	began, cancelled time.Time
	err              error // of the last step
	errAt            time.Time
}

func (p *progress) enter(s State, now time.Time) {
	if p.state != s {
		p.state, p.since = s, now
	}
}

func (p *progress) begin(a Action, now time.Time) {
	p.began, p.cancelled = now, time.Time{}
	switch {
	case a == Release:
		p.enter(StateReleasing, now)
	case p.state != StatePrepared: // to prepare again what is prepared changes nothing
		p.enter(StatePreparing, now)
	}
}

func (p *progress) cancel(now time.Time) { p.cancelled = now }

func (p *progress) end(a Action, err error, now time.Time) {
	p.began, p.cancelled = time.Time{}, time.Time{}
	p.err, p.errAt = err, time.Time{}
	if err != nil {
		p.errAt = now
	}
	switch {
	case a == Prepare && err == nil:
		p.enter(StatePrepared, now)
	case a == Prepare:
		p.enter(StatePreparing, now)
	case err == nil:
		p.enter(StateReleased, now)
	}
}

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

// state is the state of a stage for a pod, without the actions of earlier agents.
type state uint8

const (
	untouched  state = iota
	unprepared       // Prepare runs, or the last one failed
	prepared
	unreleased // Release runs, or the last one failed
	released
)

// why returns the state for an explanation. It is empty for a stage that is ready.
func (s state) why() string {
	return [...]string{"no step has run yet", "it is not prepared", "", "it is not released", "it is released"}[s]
}

// progress is how far a stage is for a pod. It is pure: the time is handed in.
type progress struct {
	state state
	since time.Time // of state
	// running is the newest action.
	running Action
	// began is when the step that runs began, zero if none does; cancelled is when
	// its context ended.
	began, cancelled time.Time
	err              error // of the last step
}

func (p *progress) enter(s state, now time.Time) {
	if p.state != s {
		p.state, p.since = s, now
	}
}

func (p *progress) begin(a Action, now time.Time) {
	p.running, p.began, p.cancelled = a, now, time.Time{}
	switch {
	case a == Release:
		p.enter(unreleased, now)
	case p.state != prepared: // to prepare again what is prepared changes nothing
		p.enter(unprepared, now)
	}
}

func (p *progress) cancel(now time.Time) { p.cancelled = now }

func (p *progress) end(a Action, err error, now time.Time) {
	p.began, p.cancelled = time.Time{}, time.Time{}
	p.err = err
	switch {
	case a == Prepare && err == nil:
		p.enter(prepared, now)
	case a == Prepare:
		p.enter(unprepared, now)
	case err == nil:
		p.enter(released, now)
	}
}

package stages

import (
	"fmt"
	"time"
)

// Action is a method of a stage that acts on a pod.
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

// gerund returns the action as the step of an explanation.
func (a Action) gerund() string {
	if a == Release {
		return "releasing"
	}
	return "preparing"
}

// state is the state of a stage for a pod. It excludes actions of earlier agents.
type state uint8

const (
	untouched  state = iota
	unprepared       // Prepare runs, or the last one failed
	prepared
	unreleased // Release runs, or the last one failed
	released
)

// why returns the state for an explanation, or "" for a prepared stage.
func (s state) why() string {
	return [...]string{"no step has run yet", "it is not prepared", "", "it is not released", "it is released"}[s]
}

// progress is the progress of a stage for a pod. It is pure: callers pass the time.
type progress struct {
	state state
	since time.Time // of state
	// running is the newest action.
	running Action
	// began is the start of the running step, zero without one; cancelled is the time at which
	// its context was done.
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
	case p.state != prepared: // a repeated Prepare of a prepared stage changes no state
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

package syncloop

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Status is the current state of the loop.
type Status struct {
	// Running is true while Run is active.
	Running bool
	// LastActive is the time when the loop last began or ended a step. Zero before the first step.
	LastActive time.Time
	// Doing is the current step, or "" while the loop waits for events.
	Doing string
	// Since is the start of Doing. Zero without a current step.
	Since time.Time
	// Step is the last text that the handler passed to SetStep during Doing.
	Step string
	// Paused is the error of Config.Health while the loop is paused, else nil. PausedSince is the
	// start of the pause.
	Paused      error
	PausedSince time.Time
	// HousekeepingAt is the start of the last housekeeping, HousekeepingErr its error.
	HousekeepingAt  time.Time
	HousekeepingErr error
	// WaitingSources and WaitingPods count the unhandled dirty sources and pods.
	WaitingSources, WaitingPods int
	// Stuck counts the pods and sources that wait for a retry after a panic. LastPanic is the last
	// panic, a *PanicError. A successful retry does not reset it.
	Stuck     int
	LastPanic error
	// Sources are the event sources, sorted by name.
	Sources []SourceStatus
}

// SourceStatus is the state of one event source.
type SourceStatus struct {
	Name string
	// Running is true while the source's Run is active.
	Running bool
	// Since is the time of the last start or end.
	Since time.Time
	// Failures counts the failures since the Loop started.
	Failures int
	// Err is the last error. It is kept while the source runs again.
	Err error
}

// Status returns the current state. It is safe for concurrent use.
func (l *Loop) Status() Status {
	st := l.state.snapshot()
	st.WaitingSources, st.WaitingPods = l.dirty.size()
	return st
}

// CheckHealth returns an error before Run, after the loop has ended, and when one step or a pause
// for an unhealthy runtime has lasted longer than StallLimit. A loop that waits for events is
// healthy.
func (l *Loop) CheckHealth() error {
	if err := l.state.notRunning(); err != nil {
		return err
	}
	st := l.state.snapshot()
	limit := l.cfg.StallLimit
	switch {
	case st.Doing != "" && time.Since(st.Since) > limit:
		return fmt.Errorf("sync loop stalled: %s has been running for %s", st.doing(), time.Since(st.Since).Round(time.Second))
	case st.Paused != nil && time.Since(st.PausedSince) > limit:
		return fmt.Errorf("sync loop has been paused for %s: %w", time.Since(st.PausedSince).Round(time.Second), st.Paused)
	}
	return nil
}

// doing returns the current step with the text from SetStep.
func (s Status) doing() string {
	if s.Step == "" {
		return s.Doing
	}
	return s.Doing + " (" + s.Step + ")"
}

// loopState is the part of the loop that is shared with readers of Status.
type loopState struct {
	mu      sync.Mutex
	entered bool
	st      Status
	sources map[string]*SourceStatus
}

func (s *loopState) init(sources []string) {
	s.sources = map[string]*SourceStatus{}
	for _, name := range sources {
		s.sources[name] = &SourceStatus{Name: name}
	}
}

// enter reports whether this is the first Run.
func (s *loopState) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entered {
		return false
	}
	s.entered, s.st.Running = true, true
	return true
}

func (s *loopState) set(change func(st *Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.st)
}

func (s *loopState) notRunning() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.entered:
		return errors.New("sync loop has not started")
	case !s.st.Running:
		return errors.New("sync loop has ended")
	}
	return nil
}

// pause records the reason of a pause. A changed reason does not begin a new pause: the text often
// contains the duration.
func (s *loopState) pause(err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.st.Paused == nil {
		s.st.PausedSince = now
	}
	s.st.Paused = err
}

// recordHousekeeping records the result of a housekeeping and reports whether it differs from the previous
// one.
func (s *loopState) recordHousekeeping(at time.Time, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.st.HousekeepingErr
	s.st.HousekeepingAt, s.st.HousekeepingErr = at, err
	if before == nil || err == nil {
		return (before == nil) != (err == nil)
	}
	return before.Error() != err.Error()
}

func (s *loopState) source(name string, change func(src *SourceStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.sources[name])
}

func (s *loopState) snapshot() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.st
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		st.Sources = append(st.Sources, *s.sources[name])
	}
	return st
}

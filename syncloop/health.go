package syncloop

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Status is what the loop is doing, for people and for health checks.
type Status struct {
	// Running tells whether Run is under way.
	Running bool
	// LastActive is when the loop last began or ended a step; zero before the
	// first one.
	LastActive time.Time
	// Doing is the step under way, "" when the loop waits for events.
	Doing string
	// Since is when Doing began, zero without one.
	Since time.Time
	// Step is what the handler said last with SetStep during Doing.
	Step string
	// Paused is why nothing is handled, nil when it is. PausedSince goes with it.
	Paused      error
	PausedSince time.Time
	// HousekeepingAt is when housekeeping last began; HousekeepingErr what came
	// of it.
	HousekeepingAt  time.Time
	HousekeepingErr error
	// WaitingSources and WaitingPods count what is dirty and not yet handled.
	WaitingSources, WaitingPods int
	// Stuck counts the pods, and sources of pods, for which a call panicked and
	// is to be tried again. LastPanic, a *PanicError, is the last panic; it stays.
	Stuck     int
	LastPanic error
	// Sources are the event sources by name.
	Sources []SourceStatus
}

// SourceStatus is the state of one event source.
type SourceStatus struct {
	Name string
	// Running tells whether its Run is under way.
	Running bool
	// Since is when it last started or ended.
	Since time.Time
	// Failures counts how often it has failed.
	Failures int
	// Err is its last error, kept while it runs again.
	Err error
}

// Status returns what the loop is doing now.
func (l *Loop) Status() Status {
	st := l.state.snapshot()
	st.WaitingSources, st.WaitingPods = l.dirty.size()
	return st
}

// CheckHealth fails when one step, or the pause for lack of health, has lasted
// longer than StallLimit, before Run and after the loop has ended. A loop that waits
// for something to do is healthy.
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
		return fmt.Errorf("sync loop has handled nothing for %s: %w", time.Since(st.PausedSince).Round(time.Second), st.Paused)
	}
	return nil
}

// doing names the step under way, with what the handler says about it.
func (s Status) doing() string {
	if s.Step == "" {
		return s.Doing
	}
	return s.Doing + " (" + s.Step + ")"
}

// loopState is the part of the loop that others look at.
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

// set changes the status.
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
		return errors.New("sync loop waits for Run")
	case !s.st.Running:
		return errors.New("sync loop has ended")
	}
	return nil
}

// pause notes why nothing is handled. A reason that changes begins no new pause:
// it often says how long it has been lasting.
func (s *loopState) pause(err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.st.Paused == nil {
		s.st.PausedSince = now
	}
	s.st.Paused = err
}

// housekept tells whether the outcome differs from the previous one.
func (s *loopState) housekept(at time.Time, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.st.HousekeepingErr
	s.st.HousekeepingAt, s.st.HousekeepingErr = at, err
	if before == nil || err == nil {
		return (before == nil) != (err == nil)
	}
	return before.Error() != err.Error()
}

// source changes the status of a source.
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

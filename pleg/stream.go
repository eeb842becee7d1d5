package pleg

import (
	"errors"
	"time"
)

// Mode is how a PLEG finds out what happened.
type Mode int8

// The modes.
const (
	// Generic lists all pods every RelistPeriod.
	Generic Mode = iota
	// Evented looks at the pods that the runtime's events name, and lists all
	// pods every EventedRelistPeriod as a safety net.
	Evented
)

// String returns the lower-case name of the mode.
func (m Mode) String() string {
	if m == Evented {
		return "evented"
	}
	return "generic"
}

// StreamState is the state of a runtime's event stream.
type StreamState int8

// The states of an event stream.
const (
	// StreamNone: the Runtime does not implement EventStream.
	StreamNone StreamState = iota
	// StreamClosed: waiting for the next attempt to open it.
	StreamClosed
	// StreamOpening: open, but not for long enough to be relied on.
	StreamOpening
	// StreamOpen: open and relied on.
	StreamOpen
	// StreamUnsupported: the runtime answered ErrNoEvents.
	StreamUnsupported
)

// String returns the lower-case name of the state.
func (s StreamState) String() string {
	switch s {
	case StreamClosed:
		return "closed"
	case StreamOpening:
		return "opening"
	case StreamOpen:
		return "open"
	case StreamUnsupported:
		return "unsupported"
	default:
		return "none"
	}
}

const (
	// streamSettle is how long a stream must be open before it counts: runtimes
	// without events accept the call and then refuse it.
	streamSettle = time.Second
	// streamStable is how long a stream must have been open for its end to count
	// as a first failure.
	streamStable = 60 * time.Second
	// streamMinBackoff and streamMaxBackoff bound the pause between attempts.
	streamMinBackoff = time.Second
	streamMaxBackoff = 30 * time.Second
	// streamProbe is the pause before a runtime without events is asked again;
	// a runtime that comes back from an outage is asked at once.
	streamProbe = 5 * time.Minute
)

// stream decides when to open the event stream and how far to rely on it. It
// has no goroutine and no clock.
type stream struct {
	state StreamState
	// since is when the state was entered; for an open stream, when it was
	// opened.
	since time.Time
	// next is when to open it again while it is closed or unsupported.
	next time.Time
	// attempts counts the failures since the last stable stream.
	attempts int
	// settled is the number of the last query before the stream settled: a list
	// with a higher one began with the stream open.
	settled uint64
	err     error
	mode    Mode
	// changed is when the mode changed last.
	changed time.Time
}

// due tells that the stream should be opened now.
func (s *stream) due(now time.Time) bool {
	return (s.state == StreamClosed || s.state == StreamUnsupported) && !s.next.After(now)
}

// opened records that the stream is being opened.
func (s *stream) opened(now time.Time) {
	s.state, s.since = StreamOpening, now
}

// settle tells, once, that the stream has been open long enough: time for the
// full list after which it is relied on.
func (s *stream) settle(now time.Time, seq uint64) bool {
	if s.state != StreamOpening || now.Sub(s.since) < streamSettle {
		return false
	}
	s.state, s.settled = StreamOpen, seq
	return true
}

// listed records a complete list. The first one begun under a settled stream
// slows the lists down.
func (s *stream) listed(seq uint64, now time.Time) {
	if s.state == StreamOpen && seq > s.settled {
		s.enter(Evented, now)
	}
}

// ended records the end of the stream and falls back to frequent lists.
func (s *stream) ended(err error, now time.Time) {
	if now.Sub(s.since) >= streamStable {
		s.attempts = 0
	}
	s.attempts++
	s.err, s.state, s.since = err, StreamClosed, now
	s.next = now.Add(doubling(streamMinBackoff, streamMaxBackoff, s.attempts))
	if errors.Is(err, ErrNoEvents) {
		s.state, s.attempts, s.next = StreamUnsupported, 0, now.Add(streamProbe)
	}
	s.enter(Generic, now)
}

// recovered records that the runtime answers again after an outage: it may be
// another version of it, with events.
func (s *stream) recovered(now time.Time) {
	if s.state == StreamUnsupported {
		s.next = now
	}
}

// wake returns when there is something to do next, zero for never.
func (s *stream) wake() time.Time {
	switch s.state {
	case StreamClosed, StreamUnsupported:
		return s.next
	case StreamOpening:
		return s.since.Add(streamSettle)
	default:
		return time.Time{}
	}
}

func (s *stream) enter(m Mode, now time.Time) {
	if s.mode != m {
		s.mode, s.changed = m, now
	}
}

// doubling returns the pause after the n-th failure in a row: first, twice
// that, and so on up to limit.
func doubling(first, limit time.Duration, n int) time.Duration {
	d := first
	for ; n > 1 && d < limit; n-- {
		d *= 2
	}
	return min(d, limit)
}

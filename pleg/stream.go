package pleg

import (
	"errors"
	"time"
)

// Mode is the way in which a PLEG detects changes.
type Mode int8

// The modes.
const (
	// Generic lists all pods every RelistPeriod.
	Generic Mode = iota
	// Evented inspects the pods of the runtime's events, and lists all pods every
	// EventedRelistPeriod as a safety net.
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
	// StreamClosed: closed until the next attempt.
	StreamClosed
	// StreamOpening: open, but too short to be reliable.
	StreamOpening
	// StreamOpen: open and reliable.
	StreamOpen
	// StreamUnsupported: PodEvents returned ErrNoEvents.
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
	// streamSettle is the duration after which an open stream is reliable. Runtimes without
	// events accept the call first and refuse it later.
	streamSettle = time.Second
	// streamStable is the duration after which the end of a stream counts as a first failure.
	streamStable = 60 * time.Second
	// streamMinBackoff and streamMaxBackoff bound the pause between attempts.
	streamMinBackoff = time.Second
	streamMaxBackoff = 30 * time.Second
	// streamProbe is the pause before the next attempt with a runtime without events. After an
	// outage the attempt is immediate.
	streamProbe = 5 * time.Minute
)

// stream decides about the event stream: when to open it, and whether it is reliable. It has no
// goroutine and no clock.
type stream struct {
	state StreamState
	// since is the start of the state; for an open stream, the time of opening.
	since time.Time
	// next is the time of the next attempt while it is closed or unsupported.
	next time.Time
	// attempts is the number of failures since the last stable stream.
	attempts int
	// settled is the number of the last query before the stream settled. A list with a higher
	// number began while the stream was open.
	settled uint64
	err     error
	mode    Mode
	// changed is the time of the last change of mode.
	changed time.Time
}

// due reports whether the stream should be opened now.
func (s *stream) due(now time.Time) bool {
	return (s.state == StreamClosed || s.state == StreamUnsupported) && !s.next.After(now)
}

func (s *stream) opened(now time.Time) {
	s.state, s.since = StreamOpening, now
}

// settle reports, once, that the stream has been open for streamSettle: a full list follows,
// after which the stream is reliable.
func (s *stream) settle(now time.Time, seq uint64) bool {
	if s.state != StreamOpening || now.Sub(s.since) < streamSettle {
		return false
	}
	s.state, s.settled = StreamOpen, seq
	return true
}

// listed records a complete list. The first one that began after the stream settled changes the
// mode to Evented.
func (s *stream) listed(seq uint64, now time.Time) {
	if s.state == StreamOpen && seq > s.settled {
		s.enter(Evented, now)
	}
}

// ended records the end of the stream and changes the mode to Generic.
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

// recovered records that the runtime is available after an outage. It may be a new version with
// events.
func (s *stream) recovered(now time.Time) {
	if s.state == StreamUnsupported {
		s.next = now
	}
}

// wake returns the time of the next action, zero for never.
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

// doubling returns the pause after the n-th failure in a row: first, doubled each time up to
// limit.
func doubling(first, limit time.Duration, n int) time.Duration {
	d := first
	for ; n > 1 && d < limit; n-- {
		d *= 2
	}
	return min(d, limit)
}

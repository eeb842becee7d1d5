package eventsourcetest

import (
	"context"
	"time"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
)

// sourceCases are the rules for an EventSource, simple ones first. Each case also checks that
// events are valid.
var sourceCases = []struct {
	name string
	play func(s *fixture)
}{
	{"Run blocks until its context is done and can be called again", playBlocks},
	{"Run returns if its context is done before the call", playStoppedBefore},
	{"Run waits for its goroutines", playJoins},
	{"a change emits an event", playReports},
	{"a change between two runs emits an event in the next run", playReportsEarlier},
	{"a burst of changes loses no event", playBurst},
	{"a source without changes emits few events", playQuiet},
	{"Run returns the error of a failure and can be called again", playFails},
	{"Run returns nil at the end of the source", playEnds},
}

func playBlocks(s *fixture) {
	for range 3 {
		r := s.start()
		if run.Wait(r.done, s.settle) {
			s.Fatalf("Run returned before its context was done: %v", r.err)
		}
		r.stop()
	}
}

func playStoppedBefore(s *fixture) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	s.startIn(ctx).stop()
}

// playJoins stops the source just after its start, and after it has emitted an event.
func playJoins(s *fixture) {
	s.start().stop()
	r := s.start()
	if s.subject.Touch != nil {
		r.expect(s.touch(), 0)
	} else {
		time.Sleep(s.settle)
	}
	r.stop()
}

func playReports(s *fixture) {
	r := s.start()
	time.Sleep(s.settle)
	for range 5 {
		n := len(r.since(0))
		r.expect(s.touch(), n)
	}
	r.stop()
}

func playReportsEarlier(s *fixture) {
	for range 3 {
		want := s.touch()
		r := s.start()
		r.expect(want, 0)
		r.stop()
	}
}

// playBurst makes many changes at once. Equal events may be merged.
func playBurst(s *fixture) {
	r := s.start()
	s.touch()
	for range 10 {
		n := len(r.since(0))
		var wanted []syncloop.Event
		for range 20 {
			wanted = append(wanted, s.touch())
		}
		for _, want := range wanted {
			r.expect(want, n)
		}
	}
	r.stop()
}

// playQuiet runs a source without changes. A few extra events are allowed, a steady stream is not.
func playQuiet(s *fixture) {
	r := s.start()
	time.Sleep(s.settle)
	n := len(r.since(0))
	time.Sleep(s.settle)
	if more, most := len(r.since(n)), 10+int(10*s.settle/time.Second); more > most {
		s.Errorf("%d events within %s without a change", more, s.settle)
	}
	r.stop()
}

func playFails(s *fixture) {
	if s.subject.Fail == nil {
		s.Skip("Subject.Fail is not set")
	}
	for range 3 {
		r := s.start()
		s.call("Fail", s.subject.Fail)
		if err := r.join(); err == nil {
			s.Fatal("Run returned nil after a failure, which means the end of the source")
		}
	}
	if s.subject.Touch != nil {
		playReportsEarlier(s)
	}
}

func playEnds(s *fixture) {
	if s.subject.End == nil {
		s.Skip("Subject.End is not set")
	}
	r := s.start()
	s.call("End", s.subject.End)
	if err := r.join(); err != nil {
		s.Fatalf("Run returned an error at the end of the source: %v", err)
	}
	if err := s.start().join(); err != nil {
		s.Fatalf("Run after the end of the source returned an error: %v", err)
	}
}

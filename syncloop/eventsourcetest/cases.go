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
	{"Run blocks until it is stopped, and can follow Run", playBlocks},
	{"Run returns when it was stopped before it began", playStoppedBefore},
	{"Run joins all that it started", playJoins},
	{"what becomes dirty is reported", playReports},
	{"what becomes dirty before Run or between two is reported", playReportsEarlier},
	{"a burst loses nothing", playBurst},
	{"who has nothing to say is quiet", playQuiet},
	{"a failure ends Run, and the next one goes on", playFails},
	{"a natural end is no error", playEnds},
}

func playBlocks(s *fixture) {
	for range 3 {
		r := s.start()
		if run.Wait(r.done, s.settle) {
			s.Fatalf("Run returned (%v) although nobody stopped it", r.err)
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
			wanted = append(wanted, s.subject.Touch())
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
		s.Errorf("%d events within %s although nothing has happened", more, s.settle)
	}
	r.stop()
}

func playFails(s *fixture) {
	if s.subject.Fail == nil {
		s.Skip("the source does not fail")
	}
	for range 3 {
		r := s.start()
		s.subject.Fail()
		if err := r.join(); err == nil {
			s.Fatal("Run returned nil, which means that there is nothing more to say, when it had failed")
		}
	}
	if s.subject.Touch != nil {
		playReportsEarlier(s)
	}
}

func playEnds(s *fixture) {
	if s.subject.End == nil {
		s.Skip("the source has no natural end")
	}
	r := s.start()
	s.subject.End()
	if err := r.join(); err != nil {
		s.Fatalf("Run came to its natural end with an error: %v", err)
	}
	if err := s.start().join(); err != nil {
		s.Fatalf("a Run after the natural end returned an error: %v", err)
	}
}

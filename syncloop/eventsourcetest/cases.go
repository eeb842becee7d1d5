package eventsourcetest

import (
	"context"
	"sync"
	"time"

	"github.com/podwright/podwright/syncloop"
)

// lockPatience is how long, in real time, making something dirty may take before it
// is said to wait for a lock.
const lockPatience = 2 * time.Second

func playBlocks(s *stage) {
	r := s.start(nil)
	time.Sleep(s.cfg.Settle)
	if r.returned() {
		s.Fatalf("Run returned (%v) although nobody stopped it", r.err)
	}
	r.stop()
}

func playStoppedBefore(s *stage) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	s.startIn(ctx, cancel, nil).stop()
}

// playJoins stops the source when it has just begun and when it has worked.
func playJoins(s *stage) {
	s.start(nil).stop()
	r := s.start(nil)
	if s.subject.Touch != nil {
		r.expect(s.touch(), 0)
	} else {
		time.Sleep(s.cfg.Settle)
	}
	r.stop()
}

func playStoppedAtWork(s *stage) {
	r := s.start(nil)
	s.touch()
	var busy sync.WaitGroup
	stop := make(chan struct{})
	defer func() { close(stop); busy.Wait() }()
	for range 4 {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					s.subject.Touch()
				}
			}
		})
	}
	time.Sleep(10 * time.Millisecond)
	r.stop()
}

func playRunsAgain(s *stage) {
	for range 3 {
		r := s.start(nil)
		time.Sleep(s.cfg.Settle / 4)
		if r.returned() {
			s.Fatalf("Run returned (%v) although nobody stopped it", r.err)
		}
		r.stop()
	}
}

func playReports(s *stage) {
	r := s.start(nil)
	time.Sleep(s.cfg.Settle)
	for range 5 {
		n := r.count()
		r.expect(s.touch(), n)
	}
	r.stop()
}

func playReportsEarlier(s *stage) {
	want := s.touch()
	r := s.start(nil)
	r.expect(want, 0)
	r.stop()
}

func playReportsMeanwhile(s *stage) {
	r := s.start(nil)
	r.expect(s.touch(), 0)
	r.stop()
	want := s.touch()
	r = s.start(nil)
	r.expect(want, 0)
	r.stop()
}

func playOwnEmit(s *stage) {
	first := s.start(nil)
	first.expect(s.touch(), 0)
	first.stop()
	second := s.start(nil)
	time.Sleep(s.cfg.Settle / 4)
	before, n := first.count(), second.count()
	second.expect(s.touch(), n)
	if first.count() != before {
		s.Error("what a second run had to say went to the emit of the first one")
	}
	second.stop()
}

// playBurst makes many things dirty at once. Several of them may be one event, if
// they are the same to whoever hears of them.
func playBurst(s *stage) {
	r := s.start(nil)
	s.touch()
	for range 10 {
		var busy sync.WaitGroup
		wanted := make([]syncloop.Event, 20)
		n := r.count()
		for i := range wanted {
			busy.Go(func() { wanted[i] = s.subject.Touch() })
		}
		busy.Wait()
		for _, want := range wanted {
			r.expect(want, n)
		}
	}
	r.stop()
}

func playSlowEmit(s *stage) {
	slow := 100
	r := s.start(func(syncloop.Event) {
		if slow--; slow >= 0 {
			<-s.clock.after(time.Millisecond)
		}
	})
	for range 5 {
		n := r.count()
		r.expect(s.touch(), n)
	}
	r.stop()
}

// playReentrantEmit makes something dirty from within emit, as a handler does
// whose answer to one event is the cause of another.
func playReentrantEmit(s *stage) {
	var once sync.Once
	again := make(chan syncloop.Event, 1)
	s.touch()
	r := s.start(func(syncloop.Event) {
		once.Do(func() {
			touched := make(chan syncloop.Event, 1)
			go func() { touched <- s.subject.Touch() }()
			select {
			case e := <-touched:
				again <- e
			case <-s.clock.after(lockPatience):
				s.Error("nothing can be made dirty while emit is called: a lock is held")
				close(again)
			}
		})
	})
	select {
	case want, ok := <-again:
		if ok {
			r.expect(want, 1)
		}
	case <-time.After(s.cfg.Settle + s.cfg.Patience):
		s.Fatal("no event")
	}
	r.stop()
}

func playWellFormed(s *stage) {
	r := s.start(nil)
	for range 5 {
		n := r.count()
		r.expect(s.touch(), n)
	}
	r.stop()
	for _, e := range r.since(0) {
		if why := malformed(e); why != "" {
			s.Errorf("event %s: %s", describe(e), why)
		}
	}
}

// malformed says why a Loop could do nothing with an event.
func malformed(e syncloop.Event) string {
	switch {
	case e.Kind.String() == syncloop.Kind(0).String():
		return "its Kind is unknown"
	case e.Kind == syncloop.PodsChanged && e.Source == "":
		return "it names no source"
	case e.Kind == syncloop.PodsChanged || e.Kind == syncloop.Housekeeping:
		return ""
	case e.UID == "":
		return "it names no pod"
	}
	return ""
}

// playQuiet lets an untouched source run. A few events too many do no harm; a
// stream of them does.
func playQuiet(s *stage) {
	r := s.start(nil)
	time.Sleep(s.cfg.Settle)
	n := r.count()
	time.Sleep(s.cfg.Settle)
	if more, most := r.count()-n, 10+int(10*s.cfg.Settle/time.Second); more > most {
		s.Errorf("%d events within %s although nothing has happened", more, s.cfg.Settle)
	}
	r.stop()
}

func playFails(s *stage) {
	if s.subject.Fail == nil {
		s.Skip("the source does not fail")
	}
	for range 3 {
		r := s.start(nil)
		s.subject.Fail()
		if err := r.join(); err == nil {
			s.Fatal("Run returned nil, which means that there is nothing more to say, when it had failed")
		}
	}
	var want syncloop.Event
	if s.subject.Touch != nil {
		want = s.subject.Touch()
	}
	r := s.start(nil)
	if s.subject.Touch != nil {
		r.expect(want, 0)
	}
	r.stop()
}

func playEnds(s *stage) {
	if s.subject.End == nil {
		s.Skip("the source has no natural end")
	}
	r := s.start(nil)
	s.subject.End()
	if err := r.join(); err != nil {
		s.Fatalf("Run came to its natural end with an error: %v", err)
	}
	r = s.start(nil)
	if err := r.join(); err != nil {
		s.Fatalf("a Run after the natural end returned an error: %v", err)
	}
}

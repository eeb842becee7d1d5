package eventsourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
)

// tooMany is the number of events in one run that counts as a busy loop, which would stop the time
// of a bubble.
const tooMany = 20_000

// responseTimeout is the time limit for expected events and for Run to return after its stop. It equals
// the default ShutdownTimeout of a Loop.
const responseTimeout = 10 * time.Second

// label is the pprof label of the goroutines of a run. Goroutines that they start inherit it.
const label = "eventsourcetest"

type fixture struct {
	testing.TB
	cfg     Config
	subject Subject
	// settle bounds the time until the source has seen an outside change. It is also the time in
	// which the suite expects no event.
	settle time.Duration
}

func newFixture(t testing.TB, cfg Config) *fixture {
	s := &fixture{TB: t, cfg: cfg, subject: cfg.New(t)}
	if s.subject.Source == nil {
		t.Fatal("eventsourcetest: New returned a Subject without a Source")
	}
	s.settle = time.Minute
	if cfg.RealTime {
		s.settle = 500 * time.Millisecond
	}
	return s
}

// touch makes a change, or skips the case.
func (s *fixture) touch() (expected syncloop.Event) {
	s.Helper()
	if s.subject.Touch == nil {
		s.Skip("Subject.Touch is not set")
	}
	s.call("Touch", func() { expected = s.subject.Touch() })
	return expected
}

// call calls a function of the Subject, and fails the case if it blocks.
func (s *fixture) call(name string, f func()) {
	s.Helper()
	returned, done := false, make(chan struct{})
	go func() {
		defer close(done)
		f()
		returned = true
	}()
	if !run.Wait(done, responseTimeout) {
		s.Fatalf("Subject.%s did not return within %s", name, responseTimeout)
	}
	if !returned {
		runtime.Goexit() // f has called FailNow
	}
}

// eventually polls holds with growing pauses until it is true or limit is over.
func eventually(limit time.Duration, holds func() bool) bool {
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; !holds(); pause = min(2*pause, limit/20) {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

type sourceRun struct {
	s      *fixture
	id     string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid after done is closed

	mu     sync.Mutex
	events []syncloop.Event
}

func (s *fixture) start() *sourceRun { return s.startIn(s.Context()) }

func (s *fixture) startIn(ctx context.Context) *sourceRun {
	ctx, cancel := context.WithCancel(ctx)
	r := &sourceRun{s: s, cancel: cancel, done: make(chan struct{})}
	r.id = fmt.Sprintf("%p", r)
	go func() {
		defer close(r.done)
		// Without the label this goroutine is not counted as the run's.
		defer pprof.SetGoroutineLabels(s.Context())
		pprof.SetGoroutineLabels(pprof.WithLabels(s.Context(), pprof.Labels(label, r.id)))
		r.err = run.Guard("Run", func() error {
			return s.subject.Source.Run(ctx, func(e syncloop.Event) { r.emit(ctx, e) })
		})
		if stack := run.StackOf(r.err); stack != "" {
			s.Errorf("%v\n%s", r.err, stack)
		}
	}()
	s.Cleanup(cancel)
	return r
}

func (r *sourceRun) emit(ctx context.Context, e syncloop.Event) {
	if why := malformed(e); why != "" {
		r.s.Errorf("event %+v: %s", e, why)
	}
	r.mu.Lock()
	r.events = append(r.events, e)
	n := len(r.events)
	r.mu.Unlock()
	if n >= tooMany {
		r.s.Errorf("%d events in one run: the source is probably in a busy loop", n)
		<-ctx.Done()
	}
}

// malformed returns the reason why an event is invalid, or "".
func malformed(e syncloop.Event) string {
	switch {
	case e.Kind.String() == syncloop.Kind(0).String():
		return "its Kind is unknown"
	case e.Kind == syncloop.PodsChanged && e.Source == "":
		return "it has no source"
	case e.Kind != syncloop.PodsChanged && e.Kind != syncloop.Housekeeping && e.UID == "":
		return "it has no UID"
	}
	return ""
}

func (r *sourceRun) since(n int) []syncloop.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[n:len(r.events):len(r.events)]
}

// expect waits for an event at index n or later.
func (r *sourceRun) expect(want syncloop.Event, n int) {
	r.s.Helper()
	if !eventually(r.s.settle+responseTimeout, func() bool { return slices.Contains(r.since(n), want) }) {
		r.s.Fatalf("missing event %+v; got %d other events: %.500v", want, len(r.since(n)), r.since(n))
	}
}

// join waits until Run returns without a stop.
func (r *sourceRun) join() error {
	r.s.Helper()
	if !run.Wait(r.done, r.s.settle+responseTimeout) {
		r.s.Fatal("Run did not return")
	}
	r.checkGoroutines()
	return r.err
}

func (r *sourceRun) stop() {
	r.s.Helper()
	r.cancel()
	if !run.Wait(r.done, responseTimeout) {
		r.s.Fatalf("Run did not return within %s after its context was done", responseTimeout)
	}
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		r.s.Errorf("Run returned an error other than context.Canceled after its context was done: %v", r.err)
	}
	r.checkGoroutines()
}

// checkGoroutines fails the case if goroutines of the run are still running.
func (r *sourceRun) checkGoroutines() {
	r.s.Helper()
	if !eventually(responseTimeout, func() bool { return r.goroutines() == "" }) {
		r.s.Errorf("goroutines still run after Run has returned:\n%s", r.goroutines())
	}
}

// goroutines returns the stacks of the run's goroutines.
func (r *sourceRun) goroutines() string {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // a Buffer returns no error
	mark := fmt.Sprintf("%q:%q", label, r.id)
	stacks := strings.Split(all.String(), "\n\n")
	return strings.Join(slices.DeleteFunc(stacks, func(s string) bool { return !strings.Contains(s, mark) }), "\n\n")
}

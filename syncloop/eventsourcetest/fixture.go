package eventsourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/syncloop"
)

// tooMany is how many events of one run are no events any more but a busy loop,
// in which the time of a bubble stands still.
const tooMany = 20_000

// patience is how long the suite waits for what has to happen, and for Run to return
// when it is stopped. A Loop gives up after that as well.
const patience = 10 * time.Second

// label marks the goroutines of a run, those that they start included.
const label = "eventsourcetest"

// fixture is one case: a source, and how it is tested.
type fixture struct {
	testing.TB
	cfg     Config
	subject Subject
	// settle bounds the time until the source has seen an outside change. It is also the
	// time in which the suite expects no event.
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

// touch makes something dirty, or skips the case.
func (s *fixture) touch() syncloop.Event {
	if s.subject.Touch == nil {
		s.Skip("the source emits nothing itself")
	}
	return s.subject.Touch()
}

// eventually waits until something holds, and looks less and less often.
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

// sourceRun is one Run of a source.
type sourceRun struct {
	s      *fixture
	id     string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done is closed

	mu     sync.Mutex
	events []syncloop.Event
}

// start runs the source.
func (s *fixture) start() *sourceRun { return s.startIn(s.Context()) }

func (s *fixture) startIn(ctx context.Context) *sourceRun {
	ctx, cancel := context.WithCancel(ctx)
	r := &sourceRun{s: s, cancel: cancel, done: make(chan struct{})}
	r.id = fmt.Sprintf("%p", r)
	go func() {
		defer close(r.done)
		// Without the label this goroutine is none of the run's any more.
		defer pprof.SetGoroutineLabels(s.Context())
		pprof.SetGoroutineLabels(pprof.WithLabels(s.Context(), pprof.Labels(label, r.id)))
		r.err = s.subject.Source.Run(ctx, func(e syncloop.Event) { r.emit(ctx, e) })
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
		r.s.Errorf("%d events in one run: is the source in a busy loop?", n)
		<-ctx.Done()
	}
}

// malformed says why a Loop could do nothing with an event.
func malformed(e syncloop.Event) string {
	switch {
	case e.Kind.String() == syncloop.Kind(0).String():
		return "its Kind is unknown"
	case e.Kind == syncloop.PodsChanged && e.Source == "":
		return "it names no source"
	case e.Kind != syncloop.PodsChanged && e.Kind != syncloop.Housekeeping && e.UID == "":
		return "it names no pod"
	}
	return ""
}

// since returns the events from a number on.
func (r *sourceRun) since(n int) []syncloop.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[n:len(r.events):len(r.events)]
}

// expect waits until an event is emitted that is the n-th or later.
func (r *sourceRun) expect(want syncloop.Event, n int) {
	r.s.Helper()
	if !eventually(r.s.settle+patience, func() bool { return slices.Contains(r.since(n), want) }) {
		r.s.Fatalf("no event %+v; there were %d others: %.500v", want, len(r.since(n)), r.since(n))
	}
}

// join waits until Run has returned by itself.
func (r *sourceRun) join() error {
	r.s.Helper()
	if !run.Wait(r.done, r.s.settle+patience) {
		r.s.Fatal("Run does not return")
	}
	r.left()
	return r.err
}

// stop stops the run and waits for it.
func (r *sourceRun) stop() {
	r.s.Helper()
	r.cancel()
	if !run.Wait(r.done, patience) {
		r.s.Fatalf("Run has not returned %s after it was stopped", patience)
	}
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		r.s.Errorf("Run was stopped and returned an error that is not context.Canceled: %v", r.err)
	}
	r.left()
}

// left fails the case if anything that Run started is still there.
func (r *sourceRun) left() {
	r.s.Helper()
	if !eventually(patience, func() bool { return r.goroutines() == "" }) {
		r.s.Errorf("Run has returned and left something running:\n%s", r.goroutines())
	}
}

// goroutines returns the stacks of the run's goroutines.
func (r *sourceRun) goroutines() string {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // a Buffer takes everything
	mark := fmt.Sprintf("%q:%q", label, r.id)
	stacks := strings.Split(all.String(), "\n\n")
	return strings.Join(slices.DeleteFunc(stacks, func(s string) bool { return !strings.Contains(s, mark) }), "\n\n")
}

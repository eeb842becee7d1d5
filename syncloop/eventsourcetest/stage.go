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

	"github.com/podwright/podwright/syncloop"
)

// tooMany is how many events of one run are no events any more but a busy loop,
// in which the time of a bubble stands still.
const tooMany = 20_000

// label marks the goroutines of a run, those that they start included.
const label = "eventsourcetest"

// stage is where one case is played.
type stage struct {
	testing.TB
	cfg     Config
	subject Subject
	clock   *wallClock
}

func newStage(t testing.TB, cfg Config, clock *wallClock) *stage {
	s := &stage{TB: t, cfg: cfg, subject: cfg.New(t), clock: clock}
	if s.subject.Source == nil {
		t.Fatal("eventsourcetest: New returned a Subject without a Source")
	}
	return s
}

// touch makes something dirty, or skips the case.
func (s *stage) touch() syncloop.Event {
	if s.subject.Touch == nil {
		s.Skip("the source emits nothing itself")
	}
	return s.subject.Touch()
}

// eventually waits until something holds, and looks less and less often.
func eventually(patience time.Duration, holds func() bool) bool {
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, patience/20) {
		switch {
		case holds():
			return true
		case time.Now().After(deadline):
			return false
		}
		time.Sleep(pause)
	}
}

// run is one Run of a source.
type run struct {
	s      *stage
	id     string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // once done is closed

	mu     sync.Mutex
	events []syncloop.Event
}

// start runs the source. onEmit is called within emit, nil for nothing.
func (s *stage) start(onEmit func(syncloop.Event)) *run {
	ctx, cancel := context.WithCancel(s.Context())
	return s.startIn(ctx, cancel, onEmit)
}

func (s *stage) startIn(ctx context.Context, cancel context.CancelFunc, onEmit func(syncloop.Event)) *run {
	r := &run{s: s, cancel: cancel, done: make(chan struct{})}
	r.id = fmt.Sprintf("%p", r)
	go func() {
		defer close(r.done)
		// Without the label this goroutine is none of the run's any more.
		defer pprof.SetGoroutineLabels(s.Context())
		pprof.SetGoroutineLabels(pprof.WithLabels(s.Context(), pprof.Labels(label, r.id)))
		r.err = s.subject.Source.Run(ctx, func(e syncloop.Event) { r.emit(ctx, e, onEmit) })
	}()
	s.Cleanup(cancel)
	return r
}

func (r *run) emit(ctx context.Context, e syncloop.Event, onEmit func(syncloop.Event)) {
	r.mu.Lock()
	r.events = append(r.events, e)
	n := len(r.events)
	r.mu.Unlock()
	if n == tooMany {
		r.s.Errorf("%d events in one run: is the source in a busy loop?", n)
	}
	if n >= tooMany {
		<-ctx.Done()
	}
	if onEmit != nil {
		onEmit(e)
	}
}

// count is how many events have been emitted.
func (r *run) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// since returns the events from a number on.
func (r *run) since(n int) []syncloop.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[n:len(r.events):len(r.events)]
}

// expect waits until an event is emitted that is the n-th or later.
func (r *run) expect(want syncloop.Event, n int) {
	r.s.Helper()
	seen := n
	heard := func() bool {
		news := r.since(seen)
		seen += len(news)
		return slices.Contains(news, want)
	}
	if !eventually(r.s.cfg.Settle+r.s.cfg.Patience, heard) {
		r.s.Fatalf("no event %s; there were %d others: %.500v", describe(want), len(r.since(n)), r.since(n))
	}
}

func describe(e syncloop.Event) string {
	return fmt.Sprintf("{%s uid=%q source=%q}", e.Kind, e.UID, e.Source)
}

// returned tells whether Run has returned.
func (r *run) returned() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// join waits until Run has returned by itself.
func (r *run) join() error {
	r.s.Helper()
	if !eventually(r.s.cfg.Settle+r.s.cfg.Patience, r.returned) {
		r.s.Fatal("Run does not return")
	}
	r.left()
	return r.err
}

// stop stops the run and waits for it.
func (r *run) stop() {
	r.s.Helper()
	r.cancel()
	if !eventually(r.s.cfg.Patience, r.returned) {
		r.s.Fatalf("Run has not returned %s after it was stopped", r.s.cfg.Patience)
	}
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		r.s.Errorf("Run was stopped and returned an error that is not context.Canceled: %v", r.err)
	}
	r.left()
}

// left fails the case if anything that Run started is still there.
func (r *run) left() {
	r.s.Helper()
	if !eventually(r.s.cfg.Patience, func() bool { return r.goroutines() == "" }) {
		r.s.Errorf("Run has returned and left something running:\n%s", r.goroutines())
	}
}

// goroutines returns the stacks of the run's goroutines.
func (r *run) goroutines() string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return err.Error()
	}
	mark := fmt.Sprintf("%q:%q", label, r.id)
	var stacks []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, mark) {
			stacks = append(stacks, stack)
		}
	}
	return strings.Join(stacks, "\n\n")
}

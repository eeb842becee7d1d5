package eventsourcetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// beacon is a correct source, or one with a defect.
type beacon struct {
	defect string

	mu    sync.Mutex
	n     int
	dirty []types.UID
	wake  chan struct{}
	fail  chan struct{}
	ended chan struct{}
	first func(syncloop.Event)
	runs  int
}

func newBeacon(defect string) *beacon {
	return &beacon{defect: defect, wake: make(chan struct{}, 1), fail: make(chan struct{}, 3), ended: make(chan struct{})}
}

func (b *beacon) subject() Subject {
	return Subject{Source: b, Touch: b.touch, Fail: func() { b.fail <- struct{}{} }, End: func() { close(b.ended) }}
}

func (b *beacon) touch() syncloop.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	e := syncloop.Event{Kind: syncloop.PodDirty, UID: types.UID(fmt.Sprint("pod-", b.n))}
	switch {
	case b.defect == "loses a burst" && len(b.dirty) > 0:
		return e
	case b.defect == "loses changes before the first run" && b.runs == 0:
		return e
	}
	b.dirty = append(b.dirty, e.UID)
	if b.defect == "forgets to wake" && b.n > 1 {
		return e
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return e
}

// begin applies a defect at the start of a run; done ends the run.
func (b *beacon) begin(ctx context.Context, emit func(syncloop.Event)) (done bool, err error) {
	b.mu.Lock()
	b.runs++
	runs := b.runs
	if b.first == nil {
		b.first = emit
	}
	if b.defect == "loses changes between two runs" && runs > 1 {
		b.dirty = nil
	}
	b.mu.Unlock()
	switch b.defect {
	case "returns at once":
		return true, nil
	case "runs only once":
		return runs > 1, errors.New("has been run before")
	case "checks its context only after it has work":
		if ctx.Err() != nil {
			time.Sleep(time.Hour)
		}
	case "leaves a goroutine":
		go time.Sleep(time.Hour)
	case "leaves a goroutine that ends later":
		go func() { <-ctx.Done(); time.Sleep(time.Minute) }()
	case "busy loop":
		for ctx.Err() == nil {
			emit(syncloop.Event{Kind: syncloop.PodDirty, UID: "1"})
		}
	}
	return false, nil
}

func (b *beacon) Run(ctx context.Context, emit func(syncloop.Event)) error {
	if done, err := b.begin(ctx, emit); done {
		return err
	}
	tick := make(<-chan time.Time)
	if b.defect == "never quiet" {
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		b.report(emit)
		select {
		case <-tick:
			emit(syncloop.Event{Kind: syncloop.PodDirty, UID: "0"})
		case <-b.wake:
		case <-b.fail:
			if b.defect == "hides a failure" {
				return nil
			}
			return errors.New("failed")
		case <-b.ended:
			if b.defect == "ends with an error" {
				return errors.New("no more")
			}
			return nil
		case <-ctx.Done():
			switch b.defect {
			case "ignores its context":
				time.Sleep(time.Hour)
			case "stops with an error":
				return errors.New("interrupted")
			}
			return ctx.Err()
		}
	}
}

// report emits the pending events.
func (b *beacon) report(emit func(syncloop.Event)) {
	b.mu.Lock()
	dirty := b.dirty
	b.dirty = nil
	b.mu.Unlock()
	if b.defect == "uses an old emit" {
		emit = b.first
	}
	for _, uid := range dirty {
		e := syncloop.Event{Kind: syncloop.PodDirty, UID: uid}
		emit(e)
		switch b.defect {
		case "events of no kind":
			emit(syncloop.Event{UID: uid})
		case "events of no pod":
			emit(syncloop.Event{Kind: syncloop.PodDirty})
		case "events of no source":
			emit(syncloop.Event{Kind: syncloop.PodsChanged})
		}
	}
}

// failing returns the cases that fail for a source. only restricts it to one case.
func failing(t *testing.T, defect, only string) []string {
	var names []string
	for _, c := range sourceCases {
		if only != "" && only != c.name {
			continue
		}
		cfg := Config{New: func(testing.TB) Subject { return newBeacon(defect).subject() }}
		synctest.Test(t, func(t *testing.T) {
			failures := record(t, func(t testing.TB) { c.play(newFixture(t, cfg)) })
			if len(failures) > 0 {
				names = append(names, c.name)
				t.Logf("%s: %s: %.300s", defect, c.name, failures[0])
			}
			time.Sleep(2 * time.Hour) // goroutines of the defect end
		})
	}
	return names
}

// The case for a rule finds each source that breaks the rule.
func TestDefectsAreFound(t *testing.T) {
	require.Empty(t, failing(t, "", ""), "a source without defects")
	for defect, want := range map[string]string{
		"returns at once": "Run blocks until its context is done and can be called again",
		"runs only once":  "Run blocks until its context is done and can be called again",
		"checks its context only after it has work": "Run returns if its context is done before the call",
		"ignores its context":                       "Run waits for its goroutines",
		"stops with an error":                       "Run blocks until its context is done and can be called again",
		"leaves a goroutine":                        "Run waits for its goroutines",
		"leaves a goroutine that ends later":        "Run waits for its goroutines",
		"forgets to wake":                           "a change emits an event",
		"loses changes before the first run":        "a change between two runs emits an event in the next run",
		"loses changes between two runs":            "a change between two runs emits an event in the next run",
		"uses an old emit":                          "a change between two runs emits an event in the next run",
		"loses a burst":                             "a burst of changes loses no event",
		"events of no kind":                         "a change emits an event",
		"events of no pod":                          "a change emits an event",
		"events of no source":                       "a change emits an event",
		"never quiet":                               "a source without changes emits few events",
		"busy loop":                                 "a source without changes emits few events",
		"hides a failure":                           "Run returns the error of a failure and can be called again",
		"ends with an error":                        "Run returns nil at the end of the source",
	} {
		t.Run(defect, func(t *testing.T) { require.Equal(t, []string{want}, failing(t, defect, want)) })
	}
}

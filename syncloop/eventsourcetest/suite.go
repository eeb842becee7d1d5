package eventsourcetest

import (
	"testing"

	"github.com/podwright/podwright/internal/bubbletest"
	"github.com/podwright/podwright/syncloop"
)

// Config configures Run.
type Config struct {
	// New returns a new source for each case. It is called in the case's bubble and stops its own
	// work with t.Cleanup. Required.
	New func(t testing.TB) Subject
	// RealTime runs the cases outside of bubbles, for sources that cannot run in one: inotify,
	// sockets, processes. The suite then takes seconds instead of milliseconds.
	RealTime bool
}

// Subject is one source under test.
type Subject struct {
	// Source is the source. It is run several times in sequence. Required.
	Source syncloop.EventSource
	// Touch makes a change and returns the expected event. It is called during a Run and without
	// one. Optional: without it, for a source that emits no events itself, the cases about events
	// are skipped.
	Touch func() syncloop.Event
	// Fail makes the current Run return an error. It must not block. Optional: without it the case
	// about failures is skipped.
	Fail func()
	// End makes the source end: the current and all later Runs return nil. It must not block.
	// Optional: without it the case about the end is skipped.
	End func()
}

// Run tests the contract of syncloop.EventSource, in one subtest per rule.
func Run(t *testing.T, cfg Config) {
	if cfg.New == nil {
		t.Fatal("eventsourcetest: New is required")
	}
	for _, c := range sourceCases {
		t.Run(c.name, func(t *testing.T) {
			if cfg.RealTime {
				c.play(newFixture(t, cfg))
				return
			}
			bubbletest.Test(t, func(t testing.TB) { c.play(newFixture(t, cfg)) })
		})
	}
}

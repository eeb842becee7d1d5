package eventsourcetest

import (
	"testing"
	"testing/synctest"

	"github.com/podwright/podwright/syncloop"
)

// Config says what Run tests, and how.
type Config struct {
	// New returns a source of its own for each case. Required. It is called inside
	// of the case's bubble; what it starts it ends with t.Cleanup.
	New func(t testing.TB) Subject
	// RealTime runs the cases outside of bubbles, for sources that need what
	// cannot live in one: inotify, sockets, processes. The suite takes seconds
	// instead of milliseconds then.
	RealTime bool
}

// Subject is one source under test.
type Subject struct {
	// Source is the source. It is run several times, one after the other. Required.
	Source syncloop.EventSource
	// Touch makes something dirty and returns the event that has to say so. It
	// is called while the source runs and while it does not. nil, for a source that
	// feeds something else and emits nothing itself, leaves out the cases about
	// events.
	Touch func() syncloop.Event
	// Fail makes the present Run return an error; it does not block. nil leaves out
	// the case about failures.
	Fail func()
	// End makes the source come to its natural end: Run returns nil, now and ever
	// after; it does not block. nil leaves out the case about it.
	End func()
}

// Run tests that sources keep the contract of syncloop.EventSource, one subtest
// per rule.
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
			synctest.Test(t, func(t *testing.T) { c.play(newFixture(t, cfg)) })
		})
	}
}

package eventsourcetest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
	// Patience is how long the suite waits for what has to happen, and for Run to
	// return when it is stopped; default 10 s, after which a Loop gives up as well.
	Patience time.Duration
	// Settle is how long it takes at most until the source has seen what happened
	// outside, and how long the suite watches that nothing happens: longer than the
	// longest period of the source; default 1 min, in real time 500 ms.
	Settle time.Duration
}

// Subject is one source under test.
type Subject struct {
	// Source is the source. It is run several times, one after the other. Required.
	Source syncloop.EventSource
	// Touch makes something dirty and returns the event that has to say so. It
	// is called while the source runs and while it does not, also by several
	// goroutines. nil, for a source that feeds something else and emits nothing
	// itself, leaves out the cases about events.
	Touch func() syncloop.Event
	// Fail makes the present Run return an error; it does not block. nil leaves out
	// the case about failures.
	Fail func()
	// End makes the source come to its natural end: Run returns nil, now and ever
	// after; it does not block. nil leaves out the case about it.
	End func()
}

// withDefaults fills in what was left out.
func (cfg Config) withDefaults() (Config, error) {
	if cfg.New == nil {
		return cfg, errors.New("eventsourcetest: New is required")
	}
	if cfg.Patience <= 0 {
		cfg.Patience = 10 * time.Second
	}
	if cfg.Settle <= 0 {
		cfg.Settle = time.Minute
		if cfg.RealTime {
			cfg.Settle = 500 * time.Millisecond
		}
	}
	return cfg, nil
}

// Run tests that sources keep the contract of syncloop.EventSource, one subtest
// per rule.
func Run(t *testing.T, cfg Config) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range sourceCases {
		clock, stop := newWallClock()
		inBubble(t, c.name, cfg.RealTime, func(t *testing.T) { c.play(newStage(t, cfg, clock)) })
		stop()
	}
}

// inBubble runs a subtest, in a bubble of its own unless real is set.
func inBubble(t *testing.T, name string, real bool, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		if real {
			test(t)
			return
		}
		synctest.Test(t, test)
	})
}

// sourceCase is one rule of the contract.
type sourceCase struct {
	name string
	play func(s *stage)
}

// sourceCases are all rules for an EventSource, the plainest first.
var sourceCases = []sourceCase{
	{"Run blocks until it is stopped", playBlocks},
	{"Run returns when it was stopped before it began", playStoppedBefore},
	{"Run joins all that it started", playJoins},
	{"Run can be stopped in the middle of its work", playStoppedAtWork},
	{"Run can follow Run", playRunsAgain},
	{"what becomes dirty is reported", playReports},
	{"what became dirty before is reported", playReportsEarlier},
	{"what became dirty between two runs is reported", playReportsMeanwhile},
	{"each run reports to its own emit", playOwnEmit},
	{"a burst loses nothing", playBurst},
	{"emit may take a while", playSlowEmit},
	{"emit is called without a lock", playReentrantEmit},
	{"events are complete", playWellFormed},
	{"who has nothing to say is quiet", playQuiet},
	{"a failure ends Run, and the next one goes on", playFails},
	{"a natural end is no error", playEnds},
}

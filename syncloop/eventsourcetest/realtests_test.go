package eventsourcetest

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/internal/testkit/child"
	"github.com/podwright/podwright/syncloop"
)

// sourceFunc is a source that only runs.
func sourceFunc(run func(ctx context.Context) error) Subject {
	return Subject{Source: syncloop.EventSourceFunc(func(ctx context.Context, _ func(syncloop.Event)) error { return run(ctx) })}
}

// realDefects are sources that would end the process or hang without the guards of the suite, with
// a rule and a text of the failure.
var realDefects = []struct {
	name, rule, text string
	new              func(t testing.TB) Subject
}{
	{"leaves a goroutine", "Run_waits_for_its_goroutines", "goroutines still run", func(testing.TB) Subject {
		return newBeacon("leaves a goroutine").subject()
	}},
	{"ignores its context", "Run_waits_for_its_goroutines", "Run did not return", func(testing.TB) Subject {
		return newBeacon("ignores its context").subject()
	}},
	{"panics", "Run_waits_for_its_goroutines", "Run panicked: oops", func(testing.TB) Subject {
		return sourceFunc(func(context.Context) error { panic("oops") })
	}},
	{"Touch blocks", "a_change_emits_an_event", "Subject.Touch did not return", func(testing.TB) Subject {
		s := newBeacon("").subject()
		s.Touch = func() syncloop.Event { select {} }
		return s
	}},
	{"waits for a file", "Run_waits_for_its_goroutines", "the clock of the synctest bubble stands still", func(t testing.TB) Subject {
		return sourceFunc(func(ctx context.Context) error {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			context.AfterFunc(ctx, func() { _ = w.Close() })
			_, _ = r.Read(make([]byte, 1))
			return nil
		})
	}},
}

// A defect of a source fails the subtest of its rule. It neither ends the process nor hangs.
func TestDefectsFailRealTests(t *testing.T) {
	for _, d := range realDefects {
		t.Run(d.name, func(t *testing.T) {
			child.Fails(t, d.rule, func(t *testing.T) { Run(t, Config{New: d.new}) }, d.text)
		})
	}
}

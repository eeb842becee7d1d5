package volume

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A plugin that wants to be called again at once is called in a second.
func TestRefreshIsNotAtOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	require.True(t, refreshAt(time.Time{}, now).IsZero())
	for after, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Second, 0: time.Second, time.Second: time.Second, time.Minute: time.Minute,
	} {
		require.Equal(t, want, refreshAt(now.Add(after), now).Sub(now))
	}
}

// What a shared volume was is over once it is unstaged, and that only: where it is attached
// is asked anew.
func TestEndOfUnstage(t *testing.T) {
	staged := sharedState{
		stage: StateMounted, path: "/s", found: true, expandedTo: 1,
		verified: true, attachable: true, attached: true,
	}
	failed := staged
	failed.stage = StateUncertain
	for name, c := range map[string]struct {
		out  outcome
		want sharedState
	}{
		"done":   {outcome{}, sharedState{verified: true, attachable: true}},
		"failed": {outcome{err: errFailed}, failed},
	} {
		got := staged
		got.end(&operation{kind: doUnstage}, &c.out)
		require.Equal(t, c.want, got, name)
	}
}

// Pauses double up to a bound, which is lower for what upstream reads at each sync.
func TestPauses(t *testing.T) {
	now := time.Unix(1000, 0)
	for k, want := range map[kind]time.Duration{doMount: 122 * time.Second, doStage: 122 * time.Second, doNothing: 15 * time.Second} {
		var r retry
		for _, delay := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
			r.failed(k, now)
			require.Equal(t, retry{kind: k, delay: delay, at: now.Add(delay)}, r)
		}
		for range 10 {
			r.failed(k, now)
		}
		require.Equal(t, want, r.delay)
	}
}

// A volume that is asked for twice while it is mounted for the first time is mounted once.
// If an object changes meanwhile it is mounted again: what was written may be the old one.
func TestNewsDuringTheFirstMount(t *testing.T) {
	for name, c := range map[string]struct {
		news  func(s *script)
		again bool
	}{
		"asked for once more": {func(s *script) { s.want("a", inlineVolume("x")) }, false},
		"its object changes":  {func(s *script) { s.w.objectChanged(object); s.next() }, true},
	} {
		s := newScript(t)
		s.want("a", inlineVolume("x"))
		c.news(s)
		s.endOf(doMount, outcome{})
		require.Equal(t, c.again, s.of(doMount) >= 0, name)
		s.finish()
	}
}

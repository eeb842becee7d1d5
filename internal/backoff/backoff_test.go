package backoff

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// C20: delays of 0, 10, 20 s ...; a key is forgotten after 600 s.
func TestDoublesUpToMaxAndForgets(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	table := New(Config{})
	require.True(t, table.Until("a", start).IsZero(), "an empty table delays no key")
	at := start
	for _, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		require.Equal(t, want*time.Second, table.Next("a", at, at))
		require.Equal(t, at.Add(want*time.Second), table.Until("a", at))
		at = at.Add(want * time.Second)
	}
	require.Equal(t, 10*time.Second, table.Next("b", at, at), "keys are apart")
	last := at.Add(-300 * time.Second)
	require.False(t, table.Until("a", last.Add(600*time.Second)).IsZero())
	require.True(t, table.Until("a", last.Add(601*time.Second)).IsZero())
	require.Equal(t, 10*time.Second, table.Next("a", last.Add(601*time.Second), last.Add(601*time.Second)))
}

// C20: the delay before a run does not count as run time: a key is forgotten after 600 s of
// running.
func TestForgetsAfterRunning(t *testing.T) {
	for ran, want := range map[time.Duration]time.Duration{
		599 * time.Second: 300 * time.Second,
		600 * time.Second: 300 * time.Second,
		601 * time.Second: 10 * time.Second,
	} {
		table := New(Config{Initial: 300 * time.Second})
		ended := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		started := ended.Add(300 * time.Second)
		table.Next("a", ended, started)
		table.cfg.Initial = 10 * time.Second
		again := started.Add(ran)
		require.Equal(t, ran > 600*time.Second, table.Until("a", again).IsZero(), ran)
		require.Equal(t, want, table.Next("a", again, again), ran)
	}
}

// C21: with a maximum of 5 s the initial delay is 5 s too.
func TestSmallMaximum(t *testing.T) {
	table := New(Config{Max: 5 * time.Second})
	now := time.Now()
	require.Equal(t, 5*time.Second, table.Next("a", now, now))
	require.Equal(t, 5*time.Second, table.Next("a", now.Add(5*time.Second), now.Add(5*time.Second)))
}

// Small positive values are valid, and the delay doubles while the double does not exceed the
// maximum.
func TestSmallest(t *testing.T) {
	for _, tc := range []struct {
		cfg  Config
		want []time.Duration
	}{
		{Config{Initial: 1, Max: 3}, []time.Duration{1, 2, 3, 3}},
		{Config{Initial: 2, Max: 5}, []time.Duration{2, 4, 5}},
		{Config{Max: 1}, []time.Duration{1, 1}},
	} {
		table, now := New(tc.cfg), time.Now()
		for _, want := range tc.want {
			require.Equal(t, want, table.Next("a", now, now), "%+v", tc.cfg)
		}
	}
	table, now := New(Config{Forget: 1}), time.Now()
	table.Next("a", now, now)
	require.False(t, table.Until("a", now.Add(1)).IsZero())
	require.True(t, table.Until("a", now.Add(2)).IsZero())
}

// An end before the last Next counts as the time of that Next.
func TestEndBeforeNext(t *testing.T) {
	table := New(Config{})
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	table.Next("a", began, began)
	require.Equal(t, began.Add(10*time.Second), table.Until("a", began.Add(-time.Hour)))
	require.Equal(t, 20*time.Second, table.Next("a", began.Add(-time.Hour), began.Add(time.Minute)))
}

func TestTrim(t *testing.T) {
	now := time.Now()
	table := New(Config{})
	table.Next("old", now, now.Add(-601*time.Second))
	table.Next("new", now, now.Add(-599*time.Second))
	table.Trim(now)
	require.Equal(t, 1, table.Len())
	require.Equal(t, 10*time.Second, table.Delay("new"))
	require.Zero(t, table.Delay("old"))
}

// Forget drops only the keys with the prefix; they start again.
func TestForget(t *testing.T) {
	now := time.Now()
	table := New(Config{})
	for _, key := range []string{"pod/a", "pod/b", "pod", "other/a", ""} {
		table.Next(key, now, now)
	}
	table.Forget("pod/")
	require.Equal(t, 3, table.Len())
	require.True(t, table.Until("pod/a", now).IsZero())
	require.Equal(t, 10*time.Second, table.Next("pod/a", now, now))
	require.Equal(t, 20*time.Second, table.Next("pod", now, now))
	require.Equal(t, 20*time.Second, table.Next("other/a", now, now))
	table.Forget("none")
	require.Equal(t, 4, table.Len())
	table.Forget("")
	require.Zero(t, table.Len())
}

// A restored table continues like the lost one.
func TestRestore(t *testing.T) {
	now := time.Now()
	for _, cfg := range []Config{{}, {Max: 5 * time.Second}, {Max: 1<<63 - 1, Initial: 1 << 60}} {
		lost := New(cfg)
		for n := range 70 {
			table := New(cfg)
			table.Restore("a", n, now)
			require.Equal(t, lost.Delay("a"), table.Delay("a"), n)
			require.Equal(t, lost.Until("a", now.Add(time.Second)), table.Until("a", now.Add(time.Second)))
			lost.Next("a", now, now)
		}
	}
	table := New(Config{})
	table.Next("a", now, now)
	table.Restore("a", 5, now)
	require.Equal(t, 10*time.Second, table.Delay("a"), "the stored entry applies")
	table.Restore("b", -1, now)
	require.Zero(t, table.Delay("b"))
	table.Restore("c", math.MaxInt, now) // returns at once
	require.Equal(t, 5*time.Minute, table.Delay("c"))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimingDefaults(t *testing.T) {
	for _, c := range []struct{ in, want Timing }{
		{Timing{}, Timing{Update: 10 * time.Second, Report: 5 * time.Minute}},
		{Timing{Update: time.Minute}, Timing{Update: time.Minute, Report: time.Minute}},
		{Timing{Report: time.Minute}, Timing{Update: 10 * time.Second, Report: time.Minute}},
		{Timing{Update: 1, Report: 2}, Timing{Update: 1, Report: 2}},
	} {
		got, err := c.in.WithDefaults()
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	_, err := Timing{Update: -1}.WithDefaults()
	require.ErrorContains(t, err, "Timing.Update")
	_, err = Timing{Report: -1}.WithDefaults()
	require.ErrorContains(t, err, "Timing.Report")
}

// N3: a changed status is due at once, an unchanged one after the report period.
func TestDue(t *testing.T) {
	timing, err := Timing{Name: "n"}.WithDefaults()
	require.NoError(t, err)
	now := at(0)
	require.True(t, timing.Due(Written{}, now, false), "never written")
	require.True(t, timing.Due(Written{}, time.Time{}, false), "the time does not matter")
	last := timing.Wrote(Written{}, now, false)
	require.NotZero(t, last.Shift)

	// The first report comes within half a period of its time, the next ones in time.
	first := last.At.Add(timing.Report + last.Shift)
	require.False(t, timing.Due(last, first.Add(-time.Second), false))
	require.True(t, timing.Due(last, first.Add(-time.Second), true), "a change at once")
	require.True(t, timing.Due(last, first, false))
	last = timing.Wrote(last, first, false)
	require.Zero(t, last.Shift)
	require.False(t, timing.Due(last, first.Add(4*time.Minute), false))
	require.True(t, timing.Due(last, first.Add(5*time.Minute), false))
	require.NotZero(t, timing.Wrote(last, first, true).Shift)
	require.False(t, timing.Due(last, last.At, false))
	require.True(t, timing.Due(last, first.Add(-time.Hour), false), "a clock was set back")
}

// The shifts of nodes are spread over the period and constant for each node.
func TestTimingSpreads(t *testing.T) {
	const nodes = 1000
	var tenths [10]int
	for i := range nodes {
		timing, err := Timing{Name: fmt.Sprintf("worker-%d", i)}.WithDefaults()
		require.NoError(t, err)
		shift := timing.Wrote(Written{}, at(0), true).Shift
		require.Equal(t, shift, timing.Wrote(Written{}, at(9), true).Shift)
		tenths[int(10*(0.5+float64(shift)/float64(timing.Report)))]++
		require.GreaterOrEqual(t, timing.Pause(), timing.Update)
		require.LessOrEqual(t, timing.Pause(), timing.Update*104/100)
	}
	for i, n := range tenths {
		require.InDelta(t, nodes/10, n, nodes/20, "part %d", i)
	}
}

func TestStarting(t *testing.T) {
	var timing Timing
	ready := Compute(nil, whole(at(0)))
	pause, again := timing.Starting(at(0), at(119), nil)
	require.True(t, again)
	require.Equal(t, 100*time.Millisecond, pause)
	pause, again = timing.Starting(at(0), at(120), nil)
	require.False(t, again)
	require.Zero(t, pause)
	_, again = timing.Starting(at(0), at(1), ready)
	require.False(t, again)
}

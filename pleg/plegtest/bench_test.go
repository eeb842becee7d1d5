package plegtest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/pleg"
)

// slow returns an in-memory runtime whose calls take 5 ms each; an inspection is two rounds of
// them.
func slow() *Runtime {
	rt := &Runtime{}
	rt.FailList(Fault{Latency: 5 * time.Millisecond})
	rt.FailInspections(Fault{Latency: 10 * time.Millisecond})
	return rt
}

// The results follow from the configuration: periods, latencies, modes.
func TestBench(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := slow()
		b := Bench{PLEG: pleg.Config{Runtime: rt}, Pods: rt.Pods(), Idle: 100, Watch: time.Minute, Rounds: 20}
		b.CPU = func() time.Duration { return time.Duration(rt.Lists()) * time.Millisecond }
		r, err := b.Run(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 60, r.Lists, 2)
		require.Zero(t, r.Inspections)
		require.Equal(t, time.Duration(r.Lists)*time.Millisecond, r.CPU)
		require.Equal(t, 5*time.Millisecond, r.ListTook.Median)
		require.Equal(t, 10*time.Millisecond, r.InspectTook.Max)
		require.LessOrEqual(t, r.SeenExit.Max, 1015*time.Millisecond)
		require.Greater(t, r.SeenExit.Median, 900*time.Millisecond)
		require.Equal(t, Spread{N: 30, Median: 10 * time.Millisecond, P99: 10 * time.Millisecond, Max: 10 * time.Millisecond}, r.Fresh)
		require.Equal(t, 10, r.SeenStart.N)
		require.Zero(t, r.Failed)
		list, err := rt.ListPods(t.Context())
		require.NoError(t, err)
		require.Empty(t, list, "no pod remains")
		require.Contains(t, r.String(), "at rest, lists per second")

		rt = slow()
		b = Bench{PLEG: pleg.Config{Runtime: rt.WithEvents()}, Pods: rt.Pods(), Watch: time.Minute, Rounds: 20}
		r, err = b.Run(t.Context())
		require.NoError(t, err)
		require.Zero(t, r.Lists)
		require.LessOrEqual(t, r.SeenRemoval.Max, 30*time.Millisecond)
		require.Equal(t, 10*time.Millisecond, r.Fresh.Max)
	})
}

// Faults of the runtime are counted, and end a measurement that cannot continue.
func TestBenchOfFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Bench{}.Run(t.Context())
		require.Error(t, err)
		_, err = Bench{PLEG: pleg.Config{Runtime: &Runtime{}}, Pods: brokenPods{}, Idle: 1}.Run(t.Context())
		require.ErrorIs(t, err, errBroken)

		rt := &Runtime{}
		rt.FailList(Fault{Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, err := Bench{PLEG: pleg.Config{Runtime: rt}, Pods: rt.Pods(), Rounds: 2}.Run(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, r.SeenStart.N)
	})
}

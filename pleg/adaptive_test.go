package pleg_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/plegtest"
)

// A request is an activity: a change after it is seen within 100 ms, although the lists
// had become rare.
func TestAdaptiveRelist(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		r := run(t, pleg.Config{AdaptiveRelist: true}, rt)
		r.take()
		time.Sleep(2 * time.Minute)
		lists := rt.Lists()
		time.Sleep(10 * time.Minute)
		require.Equal(t, lists+120, rt.Lists())
		r.RequestRelist("web")
		synctest.Wait()
		rt.Remove("web")
		time.Sleep(101 * time.Millisecond)
		require.Len(t, r.take(), 4)
		require.NoError(t, r.Healthy())
	})
}

// With events AdaptiveRelist changes nothing until the stream breaks.
func TestAdaptiveRelistWithEvents(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		r := run(t, pleg.Config{Runtime: rt.WithEvents(), AdaptiveRelist: true}, rt)
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, pleg.Evented, r.Health().Mode)
		lists := rt.Lists()
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		time.Sleep(4 * time.Minute)
		require.Equal(t, lists, rt.Lists())
		rt.WithEvents().FailStreams(plegtest.Fault{Err: errTest})
		rt.WithEvents().BreakStreams()
		synctest.Wait()
		require.Equal(t, lists+1, rt.Lists())
		time.Sleep(time.Second)
		require.InDelta(t, lists+11, rt.Lists(), 1)
	})
}

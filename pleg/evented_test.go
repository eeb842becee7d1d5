package pleg_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/pleg/plegtest"
)

// evented runs a PLEG on a runtime with events until its mode is Evented.
func evented(t *testing.T, rt *plegtest.Runtime) *rig {
	t.Helper()
	r := run(t, pleg.Config{Runtime: rt.WithEvents()}, rt)
	time.Sleep(1100 * time.Millisecond)
	synctest.Wait()
	require.Equal(t, pleg.Evented, r.Health().Mode)
	return r
}

// E1, E3: events cause inspections at once, and full lists become rare.
func TestEvented(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		r := evented(t, rt)
		lists := rt.Lists()
		start := time.Now()
		rt.Set(plegtest.Pod("new", plegtest.Running("c-0"))) // a new UID
		require.Equal(t, []string{"started new-sandbox", "started c-0"}, r.take())
		require.Zero(t, time.Since(start))

		// A burst within 10 ms causes one more inspection.
		for range 50 {
			time.Sleep(100 * time.Microsecond)
			rt.Announce("new")
		}
		time.Sleep(4 * time.Millisecond)
		require.Equal(t, 1, rt.Inspections("new"))
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, 2, rt.Inspections("new"))
		time.Sleep(time.Second)
		require.Equal(t, 2, rt.Inspections("new"))

		rt.Announce("nobody")
		time.Sleep(time.Second)
		require.Equal(t, 1, rt.Inspections("nobody"))
		require.Empty(t, r.take())

		time.Sleep(290 * time.Second)
		require.Equal(t, lists, rt.Lists())
		time.Sleep(10 * time.Second)
		require.Equal(t, lists+1, rt.Lists())

		// The list replaces a lost event.
		rt.Lose(func(types.UID) bool { return true })
		rt.Remove("new")
		require.Empty(t, r.take())
		time.Sleep(300 * time.Second)
		require.Len(t, r.take(), 4)
		require.NoError(t, r.Healthy())
		require.Len(t, r.verdicts(), 1)
	})
}

// P10: after each of many restarts of the runtime, frequent lists begin at once and events
// return soon.
func TestRuntimeRestarts(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		r := evented(t, rt)
		for range 10 {
			time.Sleep(250 * time.Second) // the last list is older than Threshold
			lists := rt.Lists()
			rt.WithEvents().FailStreams(plegtest.Fault{Err: errTest})
			rt.WithEvents().BreakStreams()
			synctest.Wait()
			require.Equal(t, pleg.Generic, r.Health().Mode)
			require.Equal(t, lists+1, rt.Lists(), "a list at once")
			time.Sleep(10500 * time.Millisecond)
			require.Equal(t, lists+11, rt.Lists())
			h := r.Health()
			require.Equal(t, pleg.StreamClosed, h.Stream.State)
			require.ErrorIs(t, h.Stream.Err, errTest)
			require.Greater(t, h.Stream.Attempts, 2)

			rt.WithEvents().FailStreams(plegtest.Fault{})
			time.Sleep(33 * time.Second)
			require.Equal(t, pleg.Evented, r.Health().Mode)
			rt.Set(plegtest.Pod("web", plegtest.Running(fmt.Sprintf("c-%d", rt.Lists()))))
			require.NotEmpty(t, r.take())
		}
		require.Len(t, r.verdicts(), 1, "healthy throughout")
	})
}

// E3: a runtime without events is tried again after an outage, and every 5 min.
func TestNoEvents(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.WithEvents().FailStreams(plegtest.Fault{Err: fmt.Errorf("unimplemented: %w", pleg.ErrNoEvents)})
		r := run(t, pleg.Config{Runtime: rt.WithEvents()}, rt)
		time.Sleep(4 * time.Minute)
		require.Equal(t, 1, rt.Streams())
		require.Equal(t, pleg.StreamUnsupported, r.Health().Stream.State)
		time.Sleep(2 * time.Minute)
		require.Equal(t, 2, rt.Streams())

		rt.FailList(plegtest.Fault{Err: errTest})
		time.Sleep(5 * time.Second)
		rt.WithEvents().FailStreams(plegtest.Fault{}) // first, because a list begins now
		rt.FailList(plegtest.Fault{})
		time.Sleep(3 * time.Second)
		require.Equal(t, 3, rt.Streams())
		require.Equal(t, pleg.Evented, r.Health().Mode)
	})
}

// P11: a removed container leaves the cache at once, and a late event does not restore it. E5:
// the same holds for a pod.
func TestRemovalByEvent(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.Set(plegtest.Pod("web", plegtest.Running("c-1"), plegtest.Exited("c-0", 1)))
		r := evented(t, rt)
		r.take()
		lists := rt.Lists()
		rt.Set(plegtest.Pod("web", plegtest.Running("c-1")))
		require.Equal(t, []string{"removed c-0"}, r.take())
		s, err := r.Get("web")
		require.NoError(t, err)
		require.Len(t, s.Containers, 1)
		rt.Announce("web")
		time.Sleep(time.Second)
		require.Empty(t, r.take())

		status := make(chan *observed.Pod, 1)
		time.Sleep(time.Second)
		rt.FailPod("web", plegtest.Fault{Latency: time.Millisecond})
		go func() {
			s, _ := r.Observe(t.Context(), "web", time.Now())
			status <- s
		}()
		rt.Remove("web")
		require.True(t, (<-status).Empty())
		require.ElementsMatch(t, []string{"died c-1", "removed c-1", "died web-sandbox", "removed web-sandbox"}, r.take())
		require.Empty(t, r.Pods())
		rt.Announce("web")
		time.Sleep(time.Second)
		require.Empty(t, r.take())
		require.Empty(t, r.Pods())
		require.Equal(t, lists, rt.Lists(), "no list was needed")
	})
}

// An Expected request does not wait for the rare lists of the evented mode.
func TestReinspectWhileEvented(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		r := evented(t, rt)
		r.take()
		r.Request("web", pleg.Expected)
		time.Sleep(time.Second)
		require.Equal(t, []string{"pod sync "}, r.take())
	})
}

// containerd 2.2 sends a new stream the events of the last minute, some about removed pods. They
// cause inspections like all events, which find no change.
func TestBacklog(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.WithEvents().Backlog(1000)
		for i := range 50 {
			rt.Set(plegtest.Pod("gone", plegtest.Running(fmt.Sprintf("g-%d", i))))
			rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		}
		rt.Remove("gone")
		rt.Announce("gone")
		r := evented(t, rt)
		require.ElementsMatch(t, []string{"started web-sandbox", "started c-0"}, r.take())
		require.Len(t, r.Pods(), 1)
		require.LessOrEqual(t, rt.Inspections("gone"), 2, "fifty events: one inspection at once, one for the rest")
		require.LessOrEqual(t, rt.Inspections("web"), 3, "and one for the list")

		rt.WithEvents().BreakStreams()
		time.Sleep(10 * time.Second)
		require.Equal(t, pleg.Evented, r.Health().Mode)
		require.Empty(t, r.take())
		require.Len(t, r.Pods(), 1)
		require.LessOrEqual(t, rt.Inspections("gone"), 4)
	})
}

package pleg_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/pleg/plegtest"
)

// P6: an Expected request leads to one PodSync with the next list. An Acted request leads to an
// inspection at once and no event.
func TestRequests(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		r := run(t, pleg.Config{}, rt)
		r.take()
		time.Sleep(1500 * time.Millisecond)
		r.Request("web", pleg.Expected)
		require.Empty(t, r.take())
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, []string{"pod sync "}, r.take())
		time.Sleep(time.Minute)
		require.Empty(t, r.take())

		before := rt.Inspections("web")
		rt.FailPod("web", plegtest.Fault{Latency: 10 * time.Millisecond})
		r.Request("web", pleg.Acted)
		synctest.Wait()
		for range 10 {
			r.Request("web", pleg.Acted) // during the inspection: one more, and another if that begins before the last request
		}
		time.Sleep(100 * time.Millisecond)
		require.Contains(t, []int{before + 2, before + 3}, rt.Inspections("web"))
		require.Empty(t, r.take())
	})
}

// P8, P12: neither the wall clock nor the runtime's clock, which may be hours off or in the
// wrong unit, has any influence.
func TestClockErrorsHaveNoEffect(t *testing.T) {
	for _, events := range []bool{false, true} {
		bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
			var r *rig
			if events {
				r = evented(t, rt)
			} else {
				r = run(t, pleg.Config{}, rt)
			}
			for i, skew := range []time.Duration{time.Hour, -time.Hour, 0, -20 * time.Minute, 1000 * time.Hour} {
				id := fmt.Sprintf("c-%d", i)
				pod := plegtest.Pod("web", plegtest.Running(id))
				pod.Containers[0].CreatedAt = time.Now().Add(skew)
				pod.Sandboxes[0].CreatedAt = time.Unix(0, time.Now().Add(skew).Unix()) // seconds for nanoseconds
				rt.Set(pod)
				// The clock was set back: the caller's time is in the future.
				acted := time.Now().Add(10 * time.Minute).Round(0)
				s, err := r.Observe(t.Context(), "web", acted)
				require.NoError(t, err)
				require.Equal(t, id, s.Newest("c").ID.ID)
				require.Contains(t, r.take(), "started "+id)
			}
		})
	}
}

// P14: the addresses of a pod outlive its network.
func TestIPsArePreserved(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		r := run(t, pleg.Config{}, rt)
		before := observe(t, r, "web")
		rt.Update("web", func(s *observed.Pod) {
			s.IPs, s.Sandboxes[0].IPs, s.Sandboxes[0].State = nil, nil, observed.SandboxNotReady
			s.Containers[0].State = observed.StateExited
		})
		after := observe(t, r, "web")
		require.Equal(t, []string{"10.0.0.1"}, after.IPs)
		require.Empty(t, after.Sandboxes[0].IPs)
		require.Equal(t, observed.StateRunning, before.Containers[0].State, "a returned status does not change")
	})
}

// A request is an activity: a change after it is seen within 100 ms, even if lists were rare
// before.
func TestAdaptiveRelist(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		r := run(t, pleg.Config{AdaptiveRelist: true}, rt)
		r.take()
		lists := func(after time.Duration) int {
			time.Sleep(after)
			synctest.Wait() // a list may be due at the same time
			return rt.Lists()
		}
		require.Equal(t, lists(2*time.Minute)+120, lists(10*time.Minute))
		r.Request("web", pleg.Acted)
		synctest.Wait()
		rt.Remove("web")
		time.Sleep(101 * time.Millisecond)
		require.Len(t, r.take(), 4)
		require.NoError(t, r.Healthy())
	})
}

package pleg_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/plegtest"
)

// P9 in part: the event about an action starts a look before the actor has noted that
// its call is done. The actor neither gets that look, which is too old, nor waits for it.
func TestObserveDoesNotWaitForAnOlderLook(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.FailInspections(plegtest.Fault{Latency: 10 * time.Millisecond})
		r := evented(t, rt)
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		synctest.Wait() // the event has started a look
		acted := time.Now()
		s, err := r.Observe(t.Context(), "web", acted)
		require.NoError(t, err)
		require.Equal(t, pleg.StateRunning, s.Newest("c").State)
		require.Equal(t, 10*time.Millisecond, time.Since(acted), "two rounds of calls, not four")
		require.Equal(t, 2, rt.Inspections("web"))
	})
}

// A call that is lost blinds nobody for as long as its deadline: whoever asks, and
// every event, has another look.
func TestLostCall(t *testing.T) {
	for name, ask := range map[string]func(r *rig){
		"event":   func(r *rig) { r.rt.Announce("web") },
		"request": func(r *rig) { r.RequestRelist("web") },
		"observe": func(r *rig) { observe(r.t, r, "web") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
				rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
				r := evented(t, rt)
				r.take()
				rt.FailPod("web", plegtest.Fault{Latency: time.Hour})
				r.RequestRelist("web")
				time.Sleep(6 * time.Second)
				require.Len(t, r.Health().Stale, 1)
				rt.FailPod("web", plegtest.Fault{}) // for further calls
				rt.Lose(func(types.UID) bool { return true })
				rt.Set(plegtest.Pod("web", plegtest.Exited("c-0", 1)))
				rt.Lose(nil)
				require.Empty(t, r.take())
				ask(r)
				require.Equal(t, []string{"died c-0"}, r.take())
				require.Empty(t, r.Health().Stale)

				looks := rt.Inspections("web")
				time.Sleep(3 * time.Minute) // the lost call has ended
				require.Equal(t, looks, rt.Inspections("web"))
				require.Empty(t, r.take())
				s, err := r.Get("web")
				require.NoError(t, err)
				require.Equal(t, pleg.StateExited, s.Newest("c").State)
			})
		})
	}
}

// Calls that hang are two per pod at most, whoever asks for more.
func TestHangingLooksAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		rt.FailPod("web", plegtest.Fault{Hang: true})
		r := evented(t, rt)
		for range 50 {
			time.Sleep(time.Second)
			rt.Announce("web")
			r.RequestRelist("web")
			go func() { _, _ = r.Observe(t.Context(), "web", time.Now()) }()
		}
		synctest.Wait()
		require.Equal(t, 2, rt.Inspections("web"))
		require.NoError(t, r.stop())
	})
}

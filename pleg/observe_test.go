package pleg_test

import (
	"context"
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

// P7, INV-16: an actor sees its own action without waiting for a period.
func TestObserveSeesOwnAction(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		r := run(t, pleg.Config{}, rt)
		start := time.Now()
		for i := range 100 {
			id := fmt.Sprintf("c-%d", i)
			rt.Set(plegtest.Pod("web", plegtest.Running(id)))
			acted := time.Now()
			s, err := r.Observe(t.Context(), "web", acted)
			require.NoError(t, err)
			require.Equal(t, id, s.Newest("c").ID.ID)
			require.False(t, s.ObservedAt.Before(acted))
		}
		require.Zero(t, time.Since(start), "no clock had to move")
		require.Equal(t, 100, rt.Inspections("web"))

		// A cached status is returned if it is new enough.
		acted := time.Now().Add(-time.Nanosecond)
		s, err := r.Observe(t.Context(), "web", acted)
		require.NoError(t, err)
		require.Equal(t, 100, rt.Inspections("web"))
		cached, err := r.Get("web")
		require.NoError(t, err)
		require.Same(t, cached, s)
		// The list proves the absence of a pod.
		s, err = r.Observe(t.Context(), "other", time.Time{})
		require.NoError(t, err)
		require.True(t, s.Empty())
		require.Zero(t, rt.Inspections("other"))
	})
}

// A running inspection counts only if it began after the given moment. Otherwise a second one
// begins at once, which all other callers share.
func TestObserveCoalesces(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.FailPod("web", plegtest.Fault{Latency: 100 * time.Millisecond})
		r := run(t, pleg.Config{RelistPeriod: time.Minute}, rt)
		began := time.Now()
		type got struct {
			s  *observed.Pod
			at time.Duration
		}
		answers := make(chan got, 100)
		query := func(after time.Time) {
			go func() {
				s, err := r.Observe(t.Context(), "web", after)
				if err == nil {
					answers <- got{s, time.Since(began)}
				}
			}()
			synctest.Wait()
		}
		query(began)
		time.Sleep(50 * time.Millisecond)
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		query(began.Add(-time.Nanosecond)) // the list began then: the pod was absent
		for range 20 {
			query(time.Now())
		}
		time.Sleep(time.Second)
		require.Equal(t, 3, rt.Inspections("web"))
		require.Len(t, answers, 22)
		at := map[time.Duration]int{}
		for range 22 {
			a := <-answers
			at[a.at]++
			require.Equal(t, a.at <= 50*time.Millisecond, a.s.Empty())
		}
		require.Equal(t, map[time.Duration]int{50 * time.Millisecond: 1, 100 * time.Millisecond: 1, 150 * time.Millisecond: 1, 200 * time.Millisecond: 19}, at)
	})
}

// Observe returns when its context is done, and leaves no state.
func TestObserveIsCancellable(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.Set(plegtest.Pod("web"))
		rt.FailList(plegtest.Fault{Hang: true})
		rt.FailPod("web", plegtest.Fault{Hang: true})
		r := run(t, pleg.Config{}, rt)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.Observe(ctx, "web", time.Time{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "pod web")
		// The first list still hangs; another pod can be observed.
		require.True(t, observe(t, r, "other").Empty())
		require.False(t, r.Complete())
		require.NoError(t, r.stop())
	})
}

// P9 in part: the event of an action starts an inspection before the actor has recorded the end
// of its call. Observe neither returns that inspection, which is too old, nor waits for it.
func TestObserveDoesNotWaitForOlderInspection(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.FailInspections(plegtest.Fault{Latency: 10 * time.Millisecond})
		r := evented(t, rt)
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		synctest.Wait() // the event has started an inspection
		acted := time.Now()
		s, err := r.Observe(t.Context(), "web", acted)
		require.NoError(t, err)
		require.Equal(t, observed.StateRunning, s.Newest("c").State)
		require.Equal(t, 10*time.Millisecond, time.Since(acted), "two rounds of calls, not four")
		require.Equal(t, 2, rt.Inspections("web"))
	})
}

// A lost call does not block the pod until its timeout: each Observe, request and event starts
// another inspection.
func TestLostCall(t *testing.T) {
	for name, query := range map[string]func(r *rig){
		"event":   func(r *rig) { r.rt.Announce("web") },
		"request": func(r *rig) { r.Request("web", pleg.Acted) },
		"observe": func(r *rig) { observe(r.t, r, "web") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
				rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
				r := evented(t, rt)
				r.take()
				rt.FailPod("web", plegtest.Fault{Latency: time.Hour})
				r.Request("web", pleg.Acted)
				time.Sleep(6 * time.Second)
				require.Len(t, r.Health().Stale, 1)
				rt.FailPod("web", plegtest.Fault{}) // for further calls
				rt.Lose(func(types.UID) bool { return true })
				rt.Set(plegtest.Pod("web", plegtest.Exited("c-0", 1)))
				rt.Lose(nil)
				require.Empty(t, r.take())
				query(r)
				require.Equal(t, []string{"died c-0"}, r.take())
				require.Empty(t, r.Health().Stale)

				inspections := rt.Inspections("web")
				time.Sleep(3 * time.Minute) // the lost call has ended
				require.Equal(t, inspections, rt.Inspections("web"))
				require.Empty(t, r.take())
				s, err := r.Get("web")
				require.NoError(t, err)
				require.Equal(t, observed.StateExited, s.Newest("c").State)
			})
		})
	}
}

// At most two inspections of a pod hang at a time.
func TestHungInspectionsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		rt.FailPod("web", plegtest.Fault{Hang: true})
		r := evented(t, rt)
		for range 50 {
			time.Sleep(time.Second)
			rt.Announce("web")
			r.Request("web", pleg.Acted)
			go func() { _, _ = r.Observe(t.Context(), "web", time.Now()) }()
		}
		synctest.Wait()
		require.Equal(t, 2, rt.Inspections("web"))
		require.NoError(t, r.stop())
	})
}

// A resize, which no list shows, is in the cache after one inspection, with Observe and with
// Request.
func TestResizeIsSeenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		r := run(t, pleg.Config{}, rt)
		for i, query := range []func(){func() { observe(t, r, "web") }, func() { r.Request("web", pleg.Acted) }} {
			limit := int64(i)
			rt.Update("web", func(s *observed.Pod) { s.Containers[0].Resources = &observed.Resources{MilliCPULimit: &limit} })
			query()
			synctest.Wait()
			s, err := r.Get("web")
			require.NoError(t, err)
			require.Equal(t, limit, *s.Newest("c").Resources.MilliCPULimit)
		}
	})
}

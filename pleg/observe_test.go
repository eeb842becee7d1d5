package pleg_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/plegtest"
)

// P7, INV-16: whoever has just acted sees it, without waiting for a period.
func TestObserveSeesWhatWasDone(t *testing.T) {
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

		// What is in the cache is enough if it is new enough.
		acted := time.Now().Add(-time.Nanosecond)
		s, err := r.Observe(t.Context(), "web", acted)
		require.NoError(t, err)
		require.Equal(t, 100, rt.Inspections("web"))
		cached, err := r.Get("web")
		require.NoError(t, err)
		require.Same(t, cached, s)
		// The absence of a pod is known from the list.
		s, err = r.Observe(t.Context(), "other", time.Time{})
		require.NoError(t, err)
		require.True(t, s.Empty())
		require.Zero(t, rt.Inspections("other"))
	})
}

// A look in flight counts only if it began after the given moment. For whom it does
// not a second one begins at once; all others share the next one.
func TestObserveCoalesces(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.FailPod("web", plegtest.Fault{Latency: 100 * time.Millisecond})
		r := run(t, pleg.Config{RelistPeriod: time.Minute}, rt)
		began := time.Now()
		type got struct {
			s  *pleg.PodStatus
			at time.Duration
		}
		answers := make(chan got, 100)
		ask := func(after time.Time) {
			go func() {
				s, err := r.Observe(t.Context(), "web", after)
				if err == nil {
					answers <- got{s, time.Since(began)}
				}
			}()
			synctest.Wait()
		}
		ask(began)
		time.Sleep(50 * time.Millisecond)
		rt.Set(plegtest.Pod("web", plegtest.Running("c-0")))
		ask(began.Add(-time.Nanosecond)) // the list began then: the pod was absent
		for range 20 {
			ask(time.Now())
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

// Observe obeys its context, and nothing of it is left.
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
		// The first list is not through; another pod can be observed.
		require.True(t, observe(t, r, "other").Empty())
		require.False(t, r.Complete())
		require.NoError(t, r.stop())
	})
}

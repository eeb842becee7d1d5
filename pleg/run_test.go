package pleg_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/plegtest"
)

// P3: failed lists do not count for health, which recovers by itself.
func TestHealthFollowsLists(t *testing.T) {
	for name, fault := range map[string]plegtest.Fault{
		"fails": {Err: errTest},
		"hangs": {Hang: true},
		"deaf":  {Hang: true, Deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
				r := run(t, pleg.Config{}, rt)
				require.NoError(t, r.Healthy())
				listed := r.ListedAt()
				rt.FailList(fault)
				time.Sleep(3 * time.Minute)
				require.NoError(t, r.Healthy())
				time.Sleep(time.Second)
				err := r.Healthy()
				require.ErrorIs(t, err, pleg.ErrUnhealthy)
				if name == "fails" {
					require.ErrorIs(t, err, errTest)
				} else {
					require.ErrorContains(t, err, "a list is in progress for")
				}
				require.Equal(t, listed, r.ListedAt())
				require.Len(t, r.verdicts(), 2)
				require.ErrorIs(t, r.verdicts()[1], pleg.ErrUnhealthy)

				// Inspections work without lists.
				rt.Set(plegtest.Pod("web"))
				require.False(t, observe(t, r, "web").Empty())

				rt.FailList(plegtest.Fault{})
				time.Sleep(2 * time.Second)
				require.NoError(t, r.Healthy())
				require.Len(t, r.verdicts(), 3)
				require.Nil(t, r.verdicts()[2])
			})
		})
	}
}

// P4: a blocked OnEvent does not stop observation, and each pod has an event once it continues.
func TestSlowReceiver(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		const pods = 1500 // two events each, more than maxQueued
		for i := range pods {
			rt.Set(plegtest.Pod(types.UID(fmt.Sprint(i)), plegtest.Running(fmt.Sprintf("c%d-0", i))))
		}
		release := make(chan struct{})
		got, folded := map[types.UID]int{}, 0
		r := run(t, pleg.Config{
			OnEvent: func(e pleg.Event) { <-release; got[e.UID]++ },
			Metrics: pleg.Metrics{OnFold: func(events int) { folded += events }},
		}, rt)
		time.Sleep(10 * time.Second)
		require.Greater(t, rt.Lists(), 5)
		require.NoError(t, r.Healthy())
		require.False(t, observe(t, r, "17").Empty())
		close(release)
		synctest.Wait()
		require.Len(t, got, pods)
		require.Positive(t, folded)
		require.LessOrEqual(t, folded, 2000, "of 3000 events 1000 wait")
	})
}

func TestNotRunning(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.Set(plegtest.Pod("web"))
		p, err := pleg.New(pleg.Config{Runtime: rt})
		require.NoError(t, err)
		_, err = p.Observe(t.Context(), "web", time.Time{})
		require.ErrorIs(t, err, pleg.ErrNotRunning)
		require.ErrorIs(t, p.Healthy(), pleg.ErrNotRunning)
		p.Request("web", pleg.Acted)

		r := run(t, pleg.Config{}, rt)
		require.ErrorIs(t, r.Run(t.Context()), pleg.ErrAlreadyRun)
		rt.FailPod("web", plegtest.Fault{Hang: true})
		failed := make(chan error, 1)
		go func() {
			_, err := r.Observe(t.Context(), "web", time.Now())
			failed <- err
		}()
		synctest.Wait()
		require.NoError(t, r.stop())
		require.ErrorIs(t, <-failed, pleg.ErrNotRunning)
		_, err = r.Observe(t.Context(), "web", time.Time{})
		require.ErrorIs(t, err, pleg.ErrNotRunning)
		_, err = r.Get("web")
		require.NoError(t, err, "an inspection that the end of Run cancelled is no error of the pod")

		require.ErrorIs(t, r.Run(t.Context()), pleg.ErrAlreadyRun)
	})
}

// Run's error names a runtime that ignores its contexts and a callback that does not return.
// They delay Run by ShutdownTimeout at most.
func TestShutdownNamesHungCalls(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		rt.Set(plegtest.Pod("ok"))
		rt.Set(plegtest.Pod("deaf"))
		rt.FailPod("deaf", plegtest.Fault{Hang: true, Deaf: true})
		rt.WithEvents().FailStreams(plegtest.Fault{Hang: true, Deaf: true})
		release := make(chan struct{})
		r := run(t, pleg.Config{Runtime: rt.WithEvents(), OnEvent: func(pleg.Event) { <-release }}, rt)
		rt.FailList(plegtest.Fault{Hang: true, Deaf: true})
		time.Sleep(time.Minute)
		start := time.Now()
		err := r.stop()
		require.Equal(t, 10*time.Second, time.Since(start))
		require.ErrorIs(t, err, pleg.ErrShutdownTimeout)
		require.ErrorContains(t, err, "ListPods (for")
		require.ErrorContains(t, err, "PodEvents")
		require.ErrorContains(t, err, "PodStatus of pod deaf (for 1m")
		require.ErrorContains(t, err, "OnEvent")
		require.NotContains(t, err.Error(), "pod ok")
		rt.FailList(plegtest.Fault{})
		rt.FailPod("deaf", plegtest.Fault{})
		rt.WithEvents().FailStreams(plegtest.Fault{})
		close(release)
	})
}

func TestNewRefuses(t *testing.T) {
	rt := &plegtest.Runtime{}
	for field, cfg := range map[string]pleg.Config{
		"Runtime":          {},
		"RelistPeriod":     {Runtime: rt, RelistPeriod: -1},
		"Threshold":        {Runtime: rt, RelistPeriod: time.Hour},
		"EventedThreshold": {Runtime: rt, EventedThreshold: time.Minute},
	} {
		_, err := pleg.New(cfg)
		require.ErrorContains(t, err, "Config."+field)
	}
}

// Metrics report every call, and every change of state.
func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T, rt *plegtest.Runtime) {
		var got []string
		add := func(what ...any) { got = append(got, fmt.Sprint(what...)) }
		received := func(wait time.Duration, want ...string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			require.ElementsMatch(t, want, got)
			got = nil
		}
		rt.FailList(plegtest.Fault{Latency: 20 * time.Millisecond})
		rt.Set(plegtest.Pod("web"))
		rt.FailPod("web", plegtest.Fault{Latency: 5 * time.Millisecond})
		r := run(t, pleg.Config{Runtime: rt.WithEvents(), Metrics: pleg.Metrics{
			OnList:    func(took time.Duration, pods int, err error) { add("list ", took, " ", pods, " ", err) },
			OnInspect: func(took time.Duration, err error) { add("inspect ", took, " ", err) },
			OnStale:   func(pods int) { add("stale ", pods) },
			OnStream:  func(s pleg.StreamHealth) { add("stream ", s.State) },
			OnMode:    func(mode pleg.Mode) { add("mode ", mode) },
		}}, rt)
		received(1500*time.Millisecond, "list 20ms 1 <nil>", "list 20ms 1 <nil>", "inspect 5ms <nil>", "stream opening", "stream open", "mode evented")
		require.NoError(t, r.Healthy())
		rt.FailPod("web", plegtest.Fault{Err: errTest})
		rt.Announce("web")
		received(10*time.Millisecond, "inspect 0s test", "stale 1")
		rt.FailPod("web", plegtest.Fault{})
		received(2*time.Second, "inspect 0s <nil>", "stale 0")
		rt.FailList(plegtest.Fault{Err: errTest})
		rt.WithEvents().FailStreams(plegtest.Fault{Err: errTest})
		rt.WithEvents().BreakStreams()
		received(500*time.Millisecond, "list 0s 0 test", "mode generic", "stream closed")
	})
}

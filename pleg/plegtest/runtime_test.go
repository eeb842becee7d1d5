package plegtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg/observed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Pods are copied when they are set and when they are returned.
func TestCopies(t *testing.T) {
	rt := &Runtime{}
	pod := Pod("web", Running("c-0"))
	rt.Set(pod)
	pod.Containers[0].State = observed.StateExited
	got, err := rt.PodStatus(t.Context(), "web")
	require.NoError(t, err)
	require.Equal(t, observed.StateRunning, got.Containers[0].State)
	require.Equal(t, "c", got.Containers[0].Name)
	got.Containers[0].State = observed.StateExited
	rt.Update("web", func(s *observed.Pod) { require.Equal(t, observed.StateRunning, s.Containers[0].State) })

	list, err := rt.ListPods(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	rt.Remove("web")
	got, err = rt.PodStatus(t.Context(), "web")
	require.NoError(t, err)
	require.True(t, got.Empty())
	require.Equal(t, 2, rt.Inspections("web"))
	require.Equal(t, 1, rt.Lists())
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &Runtime{}
		start := time.Now()
		rt.FailList(Fault{Latency: time.Second, Err: context.Canceled})
		_, err := rt.ListPods(t.Context())
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Second, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		rt.FailPod("web", Fault{Hang: true})
		_, err = rt.PodStatus(ctx, "web")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = rt.PodStatus(t.Context(), "other")
		require.NoError(t, err)

		rt.FailPod("web", Fault{Hang: true, Deaf: true})
		done := make(chan error)
		go func() { _, err := rt.PodStatus(ctx, "web"); done <- err }()
		synctest.Wait()
		rt.FailPod("web", Fault{})
		require.ErrorIs(t, <-done, context.DeadlineExceeded)

		rt.FailInspections(Fault{Err: errors.New("none")})
		_, err = rt.PodStatus(t.Context(), "web")
		require.EqualError(t, err, "none", "the fault of the pod was removed")
	})
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := (&Runtime{}).WithEvents()
		var got []types.UID
		listen := func() chan error {
			done := make(chan error, 1)
			go func() { done <- rt.PodEvents(t.Context(), func(uid types.UID) { got = append(got, uid) }) }()
			synctest.Wait()
			return done
		}
		done := listen()
		rt.Set(Pod("a"))
		rt.Update("b", func(*observed.Pod) {})
		rt.Lose(func(uid types.UID) bool { return uid == "a" })
		rt.Remove("a")
		rt.Announce("c")
		synctest.Wait()
		require.Equal(t, []types.UID{"a", "b", "c"}, got)
		rt.BreakStreams()
		require.ErrorIs(t, <-done, ErrStreamBroken)
		refused := errors.New("refused")
		rt.FailStreams(Fault{Err: refused})
		require.ErrorIs(t, <-listen(), refused)
		require.Equal(t, 2, rt.Streams())
	})
}

func TestRunningIDs(t *testing.T) {
	rt := &Runtime{}
	running := RunningIDs(t.Context(), rt)
	ids, err := running("web")
	require.NoError(t, err)
	require.Empty(t, ids)
	rt.Set(Pod("web", Running("a-1"), Exited("a-0", 1)))
	ids, err = running("web")
	require.NoError(t, err)
	require.Len(t, ids, 1)
	require.Contains(t, ids[0], "a-1")
	rt.FailPod("web", Fault{Err: errors.New("down")})
	_, err = running("web")
	require.ErrorContains(t, err, "down")
}

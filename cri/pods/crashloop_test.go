package pods

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/run"
)

// crashing is a runtime whose containers fail after the returned time, initially 0.
func crashing(t *testing.T) (*harness, *atomic.Int64) {
	var runFor atomic.Int64
	return newHarness(t, fake.Config{Programs: fake.Always(func(ctx context.Context, _ *fake.Process) int {
		run.Sleep(ctx, time.Duration(runFor.Load()))
		return 1
	})}), &runFor
}

// crash syncs until the container was started n more times. It returns the time from the previous
// exit to each start.
func crash(t *testing.T, h *harness, pod *v1.Pod, n int) []time.Duration {
	return crashOf(t, h, pod, "a", n)
}

// crashOf is crash for any container.
func crashOf(t *testing.T, h *harness, pod *v1.Pod, name string, n int) []time.Duration {
	var delays []time.Duration
	for len(delays) < n {
		synctest.Wait()
		before := h.status(pod)
		result := h.sync(pod)
		if at := result.NotBefore(); !at.IsZero() {
			require.Equal(t, ReasonCrashLoopBackOff, h.m.StartFailures(pod.UID)[name].Reason)
			time.Sleep(time.Until(at))
			continue
		}
		require.NoError(t, result.Err())
		require.Empty(t, h.m.StartFailures(pod.UID))
		if last := lastExit(before, name); last != nil {
			delays = append(delays, time.Since(last.FinishedAt)+h.ahead)
		} else {
			delays = append(delays, -1)
		}
	}
	return delays
}

// C20, C22: the delays are 0, 10, 20 s and so on up to 300 s, exact to the moment. A new image
// resets them.
func TestCrashLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := crashing(t)
		pod := testPod("a")
		require.Equal(t, []time.Duration{-1, 0, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s}, crash(t, h, pod, 9))
		require.EqualValues(t, 8, h.status(pod).Newest("a").RestartCount)
		require.Contains(t, h.takeEvents(), "BackOff spec.containers{a}")
		pod.Spec.Containers[0].Image = "busybox:next"
		require.Equal(t, []time.Duration{0, 10 * s}, crash(t, h, pod, 2))
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}
		require.Equal(t, []time.Duration{0, 10 * s}, crash(t, h, pod, 2))
	})
}

// A back-off continues across restarts of the agent. A changed container has no back-off.
func TestCrashLoopOutlivesTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := crashing(t)
		pod := testPod("a")
		require.Equal(t, []time.Duration{-1, 0, 10 * s}, crash(t, h, pod, 3))
		for _, want := range []time.Duration{20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s} {
			h.restart()
			require.Equal(t, []time.Duration{want}, crash(t, h, pod, 1))
		}
		h.restart()
		time.Sleep(s)
		require.Error(t, h.sync(pod).Err(), "it is held back")
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}
		require.NoError(t, h.sync(pod).Err())
		synctest.Wait()
		time.Sleep(s)
		h.restart()
		pod.Spec.Containers[0].Image = "busybox:next"
		require.NoError(t, h.sync(pod).Err())
	})
}

// A runtime's clock that differs or was set does not change the delays.
func TestCrashLoopByAnotherClock(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := crashing(t)
			h.ahead = ahead
			require.Equal(t, []time.Duration{-1, 0, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s}, crash(t, h, testPod("a"), 9), ahead)
		})
	}
}

// A back-off saved before the clock was set back lasts for its delay, and no longer.
func TestSavedBackOffByAnotherClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := crashing(t)
		pod := testPod("a")
		crash(t, h, pod, 3)
		synctest.Wait()
		require.Error(t, h.sync(pod).Err())
		held, later := h.m.HeldBack(pod.UID), metav1.NewTime(time.Now().Add(time.Hour))
		require.Len(t, held, 1)
		saved := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
			Name: "a", RestartCount: 2, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}},
			LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{StartedAt: later, FinishedAt: later}},
		}}}
		for _, c := range h.status(pod).Containers {
			require.NoError(t, h.runtime.RemoveContainer(t.Context(), c.ID.ID))
		}
		h.restart()
		h.m.RestoreBackOff(pod, saved, held)
		require.Equal(t, time.Now().Add(20*s), h.sync(pod).NotBefore())
		time.Sleep(20 * s)
		require.NoError(t, h.sync(pod).Err())
	})
}

// After a long run a restart of the agent causes no back-off.
func TestCrashLoopAfterALongRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, runFor := crashing(t)
		pod := testPod("a")
		crash(t, h, pod, 4)
		synctest.Wait()
		runFor.Store(int64(601 * s))
		crash(t, h, pod, 1)
		time.Sleep(601 * s)
		h.restart()
		require.Equal(t, []time.Duration{0}, crash(t, h, pod, 1))
	})
}

// C21: a maximum below 10 s is also the first delay.
func TestCrashLoopMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{Programs: fake.Always(fake.Exit(0))})
		h.cfg.MaxCrashLoopDelay = 5 * s
		h.restart()
		require.Equal(t, []time.Duration{-1, 0, 5 * s, 5 * s}, crash(t, h, testPod("a"), 4))
	})
}

// An exit together with its sandbox, as in a reboot, is no crash, even after many restarts.
func TestRebootIsNoCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := crashing(t)
		pod := testPod("a")
		crash(t, h, pod, 8)
		require.NoError(t, h.runtime.StopPodSandbox(t.Context(), h.status(pod).Sandboxes[0].ID))
		h.restart()
		require.NoError(t, h.sync(pod).Err())
	})
}

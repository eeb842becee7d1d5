package pods

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

// The slow stop of one container delays no start but its own: neither of a container that ended
// before, nor of a container that ends during the stop.
func TestSlowStopDelaysNoOtherStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// endsOnce ends its first run after d.
		endsOnce := func(d time.Duration) fake.Program {
			var runs atomic.Int32
			return func(ctx context.Context, p *fake.Process) int {
				if runs.Add(1) > 1 {
					return fake.SleepUntilStopped(ctx, p)
				}
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				return 1
			}
		}
		h, l := timed(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{
			"s1": endsOnce(1600 * time.Millisecond), "slow": slow(25 * time.Second), "early": endsOnce(500 * time.Millisecond), "late": endsOnce(8300 * time.Millisecond),
		}, fake.SleepUntilStopped)})
		write := h.runtime.before
		h.runtime.before = func(ctx context.Context, call, target string) error {
			if call == "CreateContainer" {
				l.add("create %s", target)
			}
			return write(ctx, call, target)
		}
		pod := initPod(testPod("slow", "early", "late", "calm"), "s1")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
		pod.Spec.Containers[0].LivenessProbe = &v1.Probe{}
		runPod(t, h, pod)
		l.take()
		l.begin = time.Now()
		time.Sleep(time.Second)
		got := h.status(pod)
		probes := found(got.Newest("slow"), probe.Liveness, probe.Failure)
		result := h.m.SyncPod(t.Context(), SyncRequest{Pod: pod, Status: got, Probes: probes, Newer: func() (*observed.Pod, probe.Results) {
			newer := h.status(pod)
			newer.ObservedAt = time.Now()
			return newer, probes
		}})
		require.NoError(t, result.Err())
		require.ElementsMatch(t, []string{
			"1s create early/1", "1s StopContainer slow 30s", "2s create s1/1", "9s create late/1", "26s create slow/1",
		}, l.take())
	})
}

// Containers that never ran keep their place behind a sidecar that is being replaced.
func TestFirstStartsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := timed(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"s1": slow(5 * time.Second)}, fake.SleepUntilStopped)})
		pod := initPod(testPod("a"), "s1", "s2")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
		h.mustSync(pod)
		synctest.Wait()
		changed := pod.DeepCopy()
		changed.Spec.InitContainers[0].Image = "other"
		h.runtime.take()
		h.mustSync(changed)
		require.Equal(t, []string{"StopContainer s1 30s", "CreateContainer s1/1", "StartContainer s1", "CreateContainer s2/0", "StartContainer s2"}, h.runtime.take())
	})
}

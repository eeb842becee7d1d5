package podsyncer

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/run"
)

// C35: a resize that fails shows in the status of the pod, with reason Error, and
// is tried again; one that succeeds takes that away. Nothing restarts.
func TestFailedResizeShows(t *testing.T) {
	var refuses atomic.Bool
	intercept := func(_ context.Context, call string, _ any) error {
		if call == "UpdateContainerResources" && refuses.Load() {
			return status.Error(codes.Internal, "no such cgroup")
		}
		return nil
	}
	inWorld(t, fake.Config{Intercept: intercept}, func(w *world) {
		condition := func() *v1.PodCondition {
			for _, c := range w.agent.statuses.Get("1").Conditions {
				if c.Type == v1.PodResizeInProgress {
					return &c
				}
			}
			return nil
		}
		pod := newPod("1", v1.RestartPolicyAlways, "a")
		pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		w.run(5*time.Second, pod)
		require.Nil(w.t, condition())
		refuses.Store(true)
		bigger := pod.DeepCopy()
		bigger.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = resource.MustParse("2")
		w.set(bigger)
		w.sleep(5 * time.Second)
		c := condition()
		require.NotNil(w.t, c)
		require.Equal(w.t, v1.ConditionTrue, c.Status)
		require.Equal(w.t, v1.PodReasonError, c.Reason)
		require.NotZero(w.t, c.LastProbeTime)
		require.Contains(w.t, c.Message, "no such cgroup")
		since := c.LastTransitionTime
		w.sleep(2 * time.Minute)
		require.Equal(w.t, since, condition().LastTransitionTime, "it is the same trouble")
		refuses.Store(false)
		w.sleep(3 * time.Minute)
		require.Nil(w.t, condition())
		require.Len(w.t, w.events.of("1", ReasonResizeCompleted), 1)
		require.Equal(w.t, map[string][]uint32{"a": {0}}, w.running())
	})
}

// The status names the node's addresses, which are also those of a pod in the host's
// network.
func TestStatusTellsOfTheNode(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		pod := newPod("1", v1.RestartPolicyAlways, "a")
		pod.Spec.HostNetwork = true
		w.hostIPs = func() []string { return []string{"192.0.2.1", "2001:db8::1"} }
		w.run(10*time.Second, pod)
		got := w.agent.statuses.Get("1")
		require.Equal(t, "192.0.2.1", got.HostIP)
		require.Equal(t, []v1.PodIP{{IP: "192.0.2.1"}, {IP: "2001:db8::1"}}, got.PodIPs)
	})
}

// A runtime that goes away in the middle of a sync tells nothing about what the sync has
// started: what was seen running before does not count as lost, nor as restarted.
func TestWhatWasStartedIsNotLostWithTheRuntime(t *testing.T) {
	var away atomic.Bool
	gone := func(context.Context, string, any) error {
		if away.Load() {
			return status.Error(codes.Unavailable, "gone away")
		}
		return nil
	}
	inWorld(t, fake.Config{Intercept: gone}, func(w *world) {
		var created atomic.Int32
		w.calls.Intercept(func(ctx context.Context, call string, do func() error) error {
			if call == "CreateContainer" && created.Add(1) == 2 {
				run.Sleep(ctx, 5*time.Second)
				away.Store(true)
			}
			return do()
		})
		w.run(4*time.Second, newPod("1", v1.RestartPolicyAlways, "a", "b"))
		for range 300 {
			a := w.container("1", "a")
			require.NotNil(t, a.State.Running, "%+v", a.State)
			require.Nil(t, a.LastTerminationState.Terminated)
			require.Zero(t, a.RestartCount)
			w.sleep(100 * time.Millisecond)
		}
		require.True(t, away.Load())
		away.Store(false)
		w.sleep(time.Minute)
		require.Equal(t, map[string][]uint32{"a": {0}, "b": {0}}, w.running())
		require.Zero(t, w.container("1", "a").RestartCount)
	})
}

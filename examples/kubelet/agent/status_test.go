package agent

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/status"
)

// The status tells that the sandbox is there while its first container is still
// being made.
func TestStatusTellsOfTheSandboxEarly(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		condition := func() v1.ConditionStatus {
			for _, c := range w.agent.statuses.Get("1").Conditions {
				if c.Type == v1.PodReadyToStartContainers {
					return c.Status
				}
			}
			return ""
		}
		seen := map[string]v1.ConditionStatus{}
		w.calls.Intercept(func(_ context.Context, call string, do func() error) error {
			if _, again := seen[call]; !again {
				seen[call] = condition()
			}
			return do()
		})
		w.set(podOf("1", v1.RestartPolicyAlways, "a"))
		w.start()
		w.sleep(10 * time.Second)
		require.Equal(t, v1.ConditionFalse, seen["RunPodSandbox"])
		require.Equal(t, v1.ConditionTrue, seen["CreateContainer"])
		require.Equal(t, v1.ConditionTrue, condition())
	})
}

// A pod that has ended says so of each of its containers, also of one that never
// had its turn.
func TestStatusOfAnEndIsFinal(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		pod := podOf("1", v1.RestartPolicyAlways, "a", "b")
		deadline := int64(20)
		pod.Spec.ActiveDeadlineSeconds = &deadline
		pod.Spec.Containers[1].Image = "NOT A NAME"
		w.set(pod)
		w.start()
		w.sleep(10 * time.Second)
		require.Equal(t, "InvalidImageName", w.agent.statuses.Get("1").ContainerStatuses[1].State.Waiting.Reason)
		w.sleep(time.Minute)
		s := w.agent.statuses.Get("1")
		require.Equal(t, v1.PodFailed, s.Phase)
		require.Equal(t, status.ReasonDeadlineExceeded, s.Reason)
		require.NotEqual(t, status.ReasonContainerStatusUnknown, s.ContainerStatuses[0].State.Terminated.Reason, "its end was seen")
		require.Equal(t, status.ReasonContainerStatusUnknown, s.ContainerStatuses[1].State.Terminated.Reason)
	})
}

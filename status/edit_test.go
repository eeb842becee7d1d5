package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// 6.2: probe results take effect at once.
func TestWithContainer(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "i:i", "s:s", "a", "b")
	pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{}
	pod.Spec.Containers[1].StartupProbe = &v1.Probe{}
	at := now.Add(time.Hour)
	s := compute(t, Input{Pod: pod, Probes: probe.Results{}, Observed: observe(exited("i", 0), running("s"), running("a"), running("b"))})
	require.Equal(t, "False ContainersNotReady", cond(s, v1.PodReady))
	untouched := s.DeepCopy()

	none, changed := podstatus.WithContainerReady(pod, s, "fake://a-0", false, at)
	require.False(t, changed, "not ready before")
	require.Equal(t, s, none)
	for _, id := range []string{"fake://x", "", "fake://i-0"} {
		_, changed = podstatus.WithContainerReady(pod, s, id, true, at)
		require.False(t, changed, id)
	}
	_, changed = podstatus.WithContainerReady(pod, s, "fake://b-0", true, at)
	require.False(t, changed, "not started")

	s, changed = podstatus.WithContainerReady(pod, s, "fake://a-0", true, at)
	require.True(t, changed)
	require.True(t, s.ContainerStatuses[0].Ready)
	require.Equal(t, "containers with unready status: [b]", podfacts.Condition(s.Conditions, v1.PodReady).Message)
	s, changed = podstatus.WithContainerStarted(pod, s, "fake://b-0", true, at)
	require.True(t, changed)
	require.True(t, *s.ContainerStatuses[1].Started && s.ContainerStatuses[1].Ready, "ready without a readiness probe")
	require.Equal(t, [2]string{"True", "True"}, [2]string{cond(s, v1.PodReady), cond(s, v1.ContainersReady)})
	require.True(t, podfacts.Condition(s.Conditions, v1.PodReady).LastTransitionTime.Time.Equal(at))
	require.Len(t, s.Conditions, len(untouched.Conditions))
	s, changed = podstatus.WithContainerReady(pod, s, "fake://s-0", false, at)
	require.True(t, changed)
	require.Equal(t, "False ContainersNotReady", cond(s, v1.PodReady), "T18 a sidecar counts")

	s, changed = podstatus.WithContainerStarted(pod, *untouched, "fake://a-0", false, at)
	require.True(t, changed)
	require.False(t, *s.ContainerStatuses[0].Started)
	s, _ = podstatus.WithContainerReady(pod, *untouched, "fake://a-0", true, at)
	s, changed = podstatus.WithContainerStarted(pod, s, "fake://a-0", false, at)
	require.True(t, changed)
	require.False(t, s.ContainerStatuses[0].Ready, "an unstarted container is not ready")
	s, changed = podstatus.WithContainerStarted(pod, s, "fake://a-0", true, at)
	require.True(t, changed)
	require.False(t, s.ContainerStatuses[0].Ready, "not ready before its readiness probe succeeds")

	dead := compute(t, Input{Pod: pod, Observed: observe(exited("a", 1), running("b"))})
	_, changed = podstatus.WithContainerReady(pod, dead, "fake://a-0", true, at)
	require.False(t, changed, "a late result does not make an ended container ready")
	_, changed = podstatus.WithContainerStarted(pod, dead, "fake://a-0", true, at)
	require.False(t, changed)
	require.Equal(t, *untouched, *untouched.DeepCopy())
}

// Results for containers without an ID, or of another pod, are ignored.
func TestProbeResultsOfUnknownContainers(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "c")
	s := v1.PodStatus{
		InitContainerStatuses: []v1.ContainerStatus{{Name: "stranger", ContainerID: "fake://init", State: wasRunning()}},
		ContainerStatuses:     []v1.ContainerStatus{{Name: "c", State: wasWaiting("x")}, {Name: "stranger", ContainerID: "fake://main", State: wasRunning()}},
	}
	for _, id := range []string{"", "fake://init", "fake://main"} {
		for _, passed := range []bool{false, true} {
			got, changed := podstatus.WithContainerStarted(pod, s, id, passed, now)
			require.False(t, changed, id)
			require.Equal(t, s, got)
		}
	}
}

func TestEditsLeaveTheInput(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "a")
	pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{}
	s := compute(t, Input{Pod: pod, Probes: probe.Results{}, Observed: observe(running("a"))})
	podfacts.Condition(s.Conditions, v1.PodReadyToStartContainers).Status = v1.ConditionFalse
	s = WithResizePending(WithResizeInProgress(WithDisruption(pod, s, "m", now), 1, podwright.Reason{}, now), 1, podwright.Reason{}, now)
	later := now.Add(time.Hour)
	for name, edit := range map[string]func(v1.PodStatus) v1.PodStatus{
		"ready": func(s v1.PodStatus) v1.PodStatus {
			s, _ = podstatus.WithContainerReady(pod, s, "fake://a-0", true, later)
			return s
		},
		"not started": func(s v1.PodStatus) v1.PodStatus {
			s, _ = podstatus.WithContainerStarted(pod, s, "fake://a-0", false, later)
			return s
		},
		"sandbox":    func(s v1.PodStatus) v1.PodStatus { return WithReadyToStart(pod, s, later) },
		"disruption": func(s v1.PodStatus) v1.PodStatus { return WithDisruption(pod, s, "another", later) },
		"pending resize": func(s v1.PodStatus) v1.PodStatus {
			return WithResizePending(s, 2, podwright.Reason{Message: "full"}, later)
		},
		"no resize": WithoutResizePending,
		"resize": func(s v1.PodStatus) v1.PodStatus {
			return WithResizeInProgress(s, 2, podwright.Reason{Reason: "x"}, later)
		},
		"resized": WithoutResizeInProgress,
	} {
		untouched := s.DeepCopy()
		require.NotEqual(t, *untouched, edit(s), name)
		require.Equal(t, *untouched, s, name)
	}
	ready, _ := podstatus.WithContainerReady(pod, s, "fake://a-0", true, later)
	ready.Phase = v1.PodFailed
	untouched := ready.DeepCopy()
	require.Equal(t, "False PodFailed", cond(podstatus.WithReadiness(pod, ready, later), v1.PodReady))
	require.Equal(t, *untouched, ready)
}

// T20: WithReadyToStart covers the time between the sandbox's creation and the next observation.
func TestWithReadyToStart(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "a")
	s := compute(t, Input{Pod: pod})
	require.Equal(t, "False", cond(s, v1.PodReadyToStartContainers))
	pod.Generation = 2
	s = WithReadyToStart(pod, s, now.Add(time.Hour))
	require.Equal(t, "True", cond(s, v1.PodReadyToStartContainers))
	c := podfacts.Condition(s.Conditions, v1.PodReadyToStartContainers)
	require.True(t, c.LastTransitionTime.Time.Equal(now.Add(time.Hour)))
	require.Equal(t, int64(2), c.ObservedGeneration)
	again := WithReadyToStart(pod, s, now.Add(2*time.Hour))
	require.Equal(t, s, again, "a repeated call changes nothing")
	require.Equal(t, "True", cond(WithReadyToStart(pod, v1.PodStatus{}, now), v1.PodReadyToStartContainers))
}

// T21: WithDisruption sets DisruptionTarget, also within an Override.
func TestWithDisruption(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "a")
	s := compute(t, Input{Pod: pod, Observed: observe(running("a")), Override: func(s *v1.PodStatus) {
		*s = WithDisruption(pod, *s, "The node was low on memory", now)
		s.Phase, s.Reason = v1.PodFailed, "Evicted"
	}})
	c := podfacts.Condition(s.Conditions, v1.DisruptionTarget)
	require.Equal(t, v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "TerminationByKubelet", Message: "The node was low on memory",
		ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(now),
	}, *c)
}

// T24: LastTransitionTime changes with the reason, LastProbeTime with each call.
func TestResizeConditions(t *testing.T) {
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	get := func(s v1.PodStatus, kind v1.PodConditionType) v1.PodCondition {
		c := podfacts.Condition(s.Conditions, kind)
		require.NotNil(t, c)
		require.Equal(t, v1.ConditionTrue, c.Status)
		return *c
	}
	s := WithResizePending(v1.PodStatus{}, 2, podwright.Reason{Reason: "NoSpace", Message: "full"}, at(1))
	c := get(s, v1.PodResizePending)
	require.Equal(t, [2]string{v1.PodReasonDeferred, "full"}, [2]string{c.Reason, c.Message}, "every other reason becomes Deferred")
	s = WithResizePending(s, 3, podwright.Reason{Reason: v1.PodReasonDeferred, Message: "still full"}, at(2))
	c = get(s, v1.PodResizePending)
	require.Equal(t, int64(3), c.ObservedGeneration, "the newest generation")
	require.Equal(t, "still full", c.Message)
	require.True(t, c.LastTransitionTime.Time.Equal(at(1)) && c.LastProbeTime.Time.Equal(at(2)), "the reason did not change")
	s = WithResizePending(s, 4, podwright.Reason{Reason: v1.PodReasonInfeasible}, at(3))
	c = get(s, v1.PodResizePending)
	require.Equal(t, v1.PodReasonInfeasible, c.Reason)
	require.True(t, c.LastTransitionTime.Time.Equal(at(3)))
	require.Len(t, s.Conditions, 1)

	s = WithoutResizePending(WithResizeInProgress(s, 4, podwright.Reason{}, at(4)))
	require.Len(t, s.Conditions, 1)
	require.Empty(t, get(s, v1.PodResizeInProgress).Reason)
	s = WithResizeInProgress(s, 0, podwright.Reason{Reason: "whatever", Message: "no such cgroup"}, at(5))
	c = get(s, v1.PodResizeInProgress)
	require.Equal(t, [2]string{v1.PodReasonError, "no such cgroup"}, [2]string{c.Reason, c.Message})
	require.Equal(t, int64(4), c.ObservedGeneration, "the generation of the resize in progress stays")
	require.True(t, c.LastTransitionTime.Time.Equal(at(5)))
	s = WithResizeInProgress(s, 0, podwright.Reason{}, at(6))
	c = get(s, v1.PodResizeInProgress)
	require.Equal(t, [2]string{v1.PodReasonError, "no such cgroup"}, [2]string{c.Reason, c.Message}, "an empty reason keeps the last one")
	require.True(t, c.LastTransitionTime.Time.Equal(at(5)) && c.LastProbeTime.Time.Equal(at(6)))
	require.Empty(t, WithoutResizeInProgress(s).Conditions)
	require.Equal(t, s, WithoutResizePending(s))
}

package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// restarting is a status of a pod in which all containers are being started anew.
func restarting() *v1.PodStatus {
	s := was("c", "c-0", 0, wasRunning(), v1.ContainerState{})
	s.Conditions = withConditions(is(v1.AllContainersRestarting, v1.ConditionTrue)).Conditions
	return s
}

// A pod without such a rule does not restart all its containers, whatever was said of it.
func TestNoRestartAllWithoutARule(t *testing.T) {
	r := computeAll(t, Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Previous: restarting(), Observed: observe()})
	require.False(t, r.RestartAll)
	require.Equal(t, "absent", cond(r.Status, v1.AllContainersRestarting))
	require.Equal(t, lost, short(r.Status.ContainerStatuses[0].LastTerminationState))
}

// What has not ended has no exit code, although 0 stands in its place.
func TestNoRestartAllBeforeAnEnd(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "c")
	restartAllRule(&pod.Spec.Containers[0], 0)
	require.False(t, computeAll(t, Input{Pod: pod, Observed: observe(running("c"))}).RestartAll)
	require.True(t, computeAll(t, Input{Pod: pod, Observed: observe(exited("c", 0))}).RestartAll)
}

// Nobody having looked, the containers are not gone: the restart is not finished.
func TestRestartAllGoesOnUnobserved(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "c")
	restartAllRule(&pod.Spec.Containers[0], 42)
	r := twice(t, Input{Pod: pod, Previous: restarting(), Now: now})
	require.True(t, r.RestartAll)
	require.Equal(t, "True RestartAllContainersStarted", cond(r.Status, v1.AllContainersRestarting))
}

// What ends a pod that restarts all its containers is decided once more, from the beginning.
func TestRestartAllEndedByAnOverride(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "c")
	restartAllRule(&pod.Spec.Containers[0], 42)
	in := Input{Pod: pod, Observed: observe(exited("c", 42)), Now: now}
	in.Override = func(s *v1.PodStatus) {
		s.Phase, s.Message = v1.PodFailed, s.Message+"evicted"
	}
	r := Compute(in)
	require.False(t, r.RestartAll)
	require.Equal(t, "evicted", r.Status.Message)
}

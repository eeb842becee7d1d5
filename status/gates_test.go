package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// 6.6, T17: a change of a readiness gate changes Ready.
func TestReadyIsStale(t *testing.T) {
	const gate = v1.PodConditionType("example.com/gate")
	pod := podOf(v1.RestartPolicyAlways, "i:init", "s:sidecar", "app")
	pod.Status = compute(t, Input{Pod: pod, Observed: observe(exited("init", 0), running("sidecar"), running("app"))})
	require.Equal(t, "True", cond(pod.Status, v1.PodReady))
	require.False(t, podfacts.ReadyIsStale(pod), "no gates")
	pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: gate}}
	require.True(t, podfacts.ReadyIsStale(pod), "the gate does not exist")
	pod.Status = podstatus.WithReadiness(pod, pod.Status, now)
	require.Equal(t, "False ReadinessGatesNotReady", cond(pod.Status, v1.PodReady))
	require.False(t, podfacts.ReadyIsStale(pod), "sidecars are ignored")
	pod.Status.Conditions = append(pod.Status.Conditions, is(gate, v1.ConditionFalse))
	require.True(t, podfacts.ReadyIsStale(pod), "the message must change")
	pod.Status = podstatus.WithReadiness(pod, pod.Status, now)
	require.False(t, podfacts.ReadyIsStale(pod))
	podfacts.Condition(pod.Status.Conditions, gate).Status = v1.ConditionTrue
	require.True(t, podfacts.ReadyIsStale(pod))
	untouched := pod.DeepCopy()
	podfacts.ReadyIsStale(pod)
	require.Equal(t, untouched, pod)
	pod.Status.Conditions = nil
	require.True(t, podfacts.ReadyIsStale(pod))
}

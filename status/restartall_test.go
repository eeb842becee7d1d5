package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// If an Override ends a pod that restarts all containers, the status is computed again without
// the restart.
func TestRestartAllEndedByAnOverride(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "c")
	restartAllRule(&pod.Spec.Containers[0], 42)
	in := Input{Pod: pod, Observed: observe(exited("c", 42)), Now: now}
	in.Override = func(s *v1.PodStatus) {
		s.Phase, s.Message = v1.PodFailed, s.Message+"evicted"
	}
	r := computed(t, in)
	require.False(t, r.RestartAll)
	require.Equal(t, "evicted", r.Status.Message)
}

package pods

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// C30, C31, C32: who decides on the grace period.
func TestGraceSeconds(t *testing.T) {
	probed := testPod("a", "b")
	probed.Spec.TerminationGracePeriodSeconds = ptr(int64(60))
	probed.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: ptr(int64(3))}
	probed.Spec.Containers[0].StartupProbe = &v1.Probe{TerminationGracePeriodSeconds: ptr(int64(4))}
	sidecar := *probed.Spec.Containers[0].DeepCopy()
	sidecar.Name = "s"
	probed.Spec.InitContainers = []v1.Container{sidecar}
	probed.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
	deleted := probed.DeepCopy()
	deleted.DeletionGracePeriodSeconds = ptr(int64(10))
	unset := testPod("a")
	unset.Spec.TerminationGracePeriodSeconds = nil
	bad := testPod("a")
	bad.Spec.TerminationGracePeriodSeconds = ptr(int64(-7))
	long := testPod("a")
	long.Spec.TerminationGracePeriodSeconds = ptr(int64(1) << 62)
	for _, tc := range []struct {
		name      string
		pod       *v1.Pod
		container string
		reason    KillReason
		override  *int64
		want      int64
	}{
		{"spec", probed, "a", "", nil, 60},
		{"unset", unset, "a", "", nil, 2},
		{"negative", bad, "a", "", nil, 0},
		{"more than a duration holds", long, "a", "", nil, 1<<31 - 1},
		{"liveness", probed, "a", KillLivenessProbe, nil, 3},
		{"startup", probed, "a", KillStartupProbe, nil, 4},
		{"liveness of a sidecar", probed, "s", KillLivenessProbe, nil, 3},
		{"liveness of another", probed, "b", KillLivenessProbe, nil, 60},
		{"ephemeral", probed, "debug", KillLivenessProbe, nil, 60},
		{"not in the spec", probed, "gone", KillLivenessProbe, nil, 60},
		{"deletion wins over the probe", deleted, "a", KillLivenessProbe, nil, 10},
		{"override wins over all", deleted, "a", KillLivenessProbe, ptr(int64(5)), 5},
		{"override is no minimum", deleted, "a", "", ptr(int64(50)), 50},
		{"override 0", deleted, "a", "", ptr(int64(0)), 0},
		{"negative override", deleted, "a", "", ptr(int64(-1)), 0},
		{"orphan", nil, "a", "", nil, 1},
		{"orphan with override", nil, "a", "", ptr(int64(9)), 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, graceSeconds(tc.pod, containerSpec(tc.pod, tc.container), tc.reason, tc.override))
		})
	}
	for _, name := range []string{"a", "b", "s", "debug"} {
		require.Equal(t, name, containerSpec(probed, name).Name)
	}
}

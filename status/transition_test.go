package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status/internal/podstatus"
)

// T33: a container does not run again after its final end.
func TestCheckTransition(t *testing.T) {
	rule := podOf(v1.RestartPolicyNever, "c")
	restartAllRule(&rule.Spec.Containers[0], 42)
	onFailure := podOf(v1.RestartPolicyNever, "c")
	policy := v1.ContainerRestartPolicyOnFailure
	onFailure.Spec.Containers[0].RestartPolicy = &policy
	never := func(policy v1.RestartPolicy) *v1.Pod {
		pod, own := podOf(policy, "c"), v1.ContainerRestartPolicyNever
		pod.Spec.Containers[0].RestartPolicy = &own
		return pod
	}
	one := func(id string, state v1.ContainerState) v1.ContainerStatus {
		return v1.ContainerStatus{Name: "c", ContainerID: id, State: state}
	}
	ended := func(code int32) v1.ContainerStatus { return one("x", wasTerminated(code, "")) }
	waits, runs := one("x", wasWaiting("r")), one("x", wasRunning())
	for _, tc := range []struct {
		name     string
		pod      *v1.Pod
		old, new v1.ContainerStatus
		legal    bool
	}{
		{"T33 never, to waiting", podOf(v1.RestartPolicyNever, "c"), ended(0), waits, false},
		{"T33 never, to running", podOf(v1.RestartPolicyNever, "c"), ended(1), runs, false},
		{"never, without a container ID", podOf(v1.RestartPolicyNever, "c"), ended(1), one("", wasWaiting("r")), false},
		{"never, another instance", podOf(v1.RestartPolicyNever, "c"), ended(1), one("y", wasRunning()), true},
		{"T33 restart of all", rule, ended(1), waits, true},
		{"always", podOf(v1.RestartPolicyAlways, "c"), ended(0), waits, true},
		{"no policy", podOf("", "c"), ended(0), waits, true},
		{"always, but not the container", never(v1.RestartPolicyAlways), ended(1), waits, true},
		{"no policy but the container's", never(""), ended(1), waits, true},
		{"no status", podOf(v1.RestartPolicyNever, "c"), ended(1), v1.ContainerStatus{}, true},
		{"on failure, failed", podOf(v1.RestartPolicyOnFailure, "c"), ended(1), waits, true},
		{"on failure, succeeded", podOf(v1.RestartPolicyOnFailure, "c"), ended(0), waits, false},
		{"the container's own policy", onFailure, ended(1), waits, true},
		{"the container's own policy, succeeded", onFailure, ended(0), waits, false},
		{"another end", podOf(v1.RestartPolicyNever, "c"), ended(1), ended(0), true},
		{"still running", podOf(v1.RestartPolicyNever, "c"), runs, waits, true},
		{"init", podOf(v1.RestartPolicyNever, "i:c"), ended(0), waits, false},
		{"init, again in a new sandbox", podOf(v1.RestartPolicyOnFailure, "i:c"), ended(0), one("y", wasRunning()), true},
		{"sidecar", podOf(v1.RestartPolicyNever, "s:c"), ended(0), waits, true},
		{"ephemeral", podOf(v1.RestartPolicyNever, "e:c"), ended(0), waits, true},
		{"another container", podOf(v1.RestartPolicyNever, "d"), ended(0), waits, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status := func(c v1.ContainerStatus) *v1.PodStatus {
				list := []v1.ContainerStatus{c}
				switch {
				case len(tc.pod.Spec.InitContainers) > 0:
					return &v1.PodStatus{InitContainerStatuses: list}
				case len(tc.pod.Spec.EphemeralContainers) > 0:
					return &v1.PodStatus{EphemeralContainerStatuses: list}
				}
				return &v1.PodStatus{ContainerStatuses: list}
			}
			err := podstatus.CheckTransition(tc.pod, status(tc.old), status(tc.new))
			if tc.legal {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, podstatus.ErrIllegalTransition)
			require.ErrorContains(t, err, "[c]")
		})
	}
}

package pods

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// An ephemeral container that is added to a running pod sees its target's
// processes, and runs once.
func TestContainerdEphemeral(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		h.mustSync(pod)
		debug := shell(pod, "debug", "ps -o args; hostname")
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{
			EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: debug.Name, Image: debug.Image, Command: debug.Command},
			TargetContainerName:      "a",
		}}
		h.mustSync(pod)
		status := until(t, h, pod, exited("debug", 0))
		require.Contains(t, logOf(t, status.Newest("debug")), "trap", "the script of container a")
		h.runtime.take()
		h.mustSync(pod)
		require.Empty(t, h.runtime.take())
	})
}

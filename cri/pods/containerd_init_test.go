package pods

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg"
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

// An agent that dies at each call while init containers and a sidecar are brought
// up, on a runtime with a state of its own.
func TestContainerdInitCrashes(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		pod.Spec.Containers = pod.Spec.Containers[:1]
		sidecar := shell(pod, "s1", forever)
		sidecar.RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
		pod.Spec.InitContainers = []v1.Container{shell(pod, "i0", "exit 0"), sidecar}
		for n := 1; n <= 6; n++ {
			died := h.dieAfter(n)
			require.Eventually(t, func() bool {
				h.sync(pod)
				return died()
			}, patience, 20*time.Millisecond)
			h.reborn()
			status := until(t, h, pod, running("s1", "a"))
			for _, name := range []string{"s1", "a"} {
				require.Len(t, instances(status, name, pleg.StateRunning), 1, "%d: %s", n, name)
			}
			removeForGood(t, h, pod)
		}
	})
}

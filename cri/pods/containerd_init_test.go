package pods

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/probe"
)

// An init container that fails and is tried again, with its back-off, and what
// comes after it.
func TestContainerdInitChain(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		h.cfg.MaxCrashLoopDelay = time.Second
		pod.Spec.Containers = pod.Spec.Containers[:1]
		note := "echo %s >> /data/order; "
		pod.Spec.InitContainers = []v1.Container{
			shell(pod, "i0", fmt.Sprintf(note, "i0")),
			shell(pod, "i1", fmt.Sprintf(note, "i1")+`[ $(grep -c i1 /data/order) -ge 3 ]`),
		}
		pod.Spec.Containers[0].Command[2] = fmt.Sprintf(note, "a") + forever
		dir := withData(t, h, pod)
		status := until(t, h, pod, running("a"))
		require.Eventually(t, func() bool {
			order, err := os.ReadFile(filepath.Join(dir, "order"))
			return err == nil && string(order) == "i0\ni1\ni1\ni1\na\n"
		}, patience, 20*time.Millisecond)
		require.EqualValues(t, 2, status.Newest("i1").RestartCount)
		require.EqualValues(t, 0, status.Newest("i0").RestartCount)
		require.Contains(t, h.takeEvents(), "BackOff spec.initContainers{i1}")
		h.restart()
		h.runtime.take()
		h.mustSync(pod)
		require.Empty(t, h.runtime.take(), "a new agent runs none of it again")
	})
}

// C13, C14: a sidecar's startup probe decides about what comes after it.
func TestContainerdSidecar(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		pod.Spec.Containers = pod.Spec.Containers[:1]
		sidecar := shell(pod, "s0", forever)
		sidecar.RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
		sidecar.StartupProbe = &v1.Probe{TerminationGracePeriodSeconds: ptr(int64(3))}
		pod.Spec.InitContainers = []v1.Container{sidecar}
		result := probe.Unknown
		sync := func() *pleg.PodStatus {
			status := h.status(pod)
			request := SyncRequest{Pod: pod, Status: status}
			if s0 := status.Newest("s0"); s0 != nil {
				request.Probes = found(s0, probe.Startup, result)
			}
			synced := h.m.SyncPod(t.Context(), request)
			require.NoError(t, synced.Err())
			return h.status(pod)
		}
		sync()
		require.Nil(t, sync().Newest("a"), "no result yet")
		result = probe.Failure
		status := sync()
		require.EqualValues(t, 1, status.Newest("s0").RestartCount)
		require.Nil(t, status.Newest("a"))
		result = probe.Success
		require.True(t, running("s0", "a")(sync()))
		a := status.Newest("s0").ID.ID
		h.restart()
		require.NoError(t, h.runtime.RuntimeService.StopContainer(t.Context(), h.status(pod).Newest("a").ID.ID, 5*time.Second))
		status = sync()
		require.EqualValues(t, 1, status.Newest("a").RestartCount, "a new agent that knows that the sidecar has started")
		require.Equal(t, a, status.Newest("s0").ID.ID)
	})
}

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

// C19 in a real runtime.
func TestContainerdRestartAll(t *testing.T) {
	onContainerd(t, func(t *testing.T, h *harness, pod *v1.Pod) {
		pod.Spec.InitContainers = []v1.Container{shell(pod, "i0", "exit 0")}
		dir := withData(t, h, pod)
		pod.Spec.Containers[0].Command[2] = `[ -e /data/again ] && { ` + forever + `; }; while [ ! -e /data/go ]; do sleep 0.05; done; touch /data/again; exit 42`
		restartsAllOn(&pod.Spec.Containers[0], 42)
		before := until(t, h, pod, running("a", "b"))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
		after := until(t, h, pod, func(s *pleg.PodStatus) bool { return running("a", "b")(s) && s.Newest("a").RestartCount == 1 })
		require.Equal(t, before.Sandboxes, after.Sandboxes)
		require.Equal(t, before.IPs, after.IPs)
		for _, name := range []string{"i0", "b"} {
			require.EqualValues(t, 1, after.Newest(name).RestartCount, name)
		}
		require.FileExists(t, before.Newest("a").LogPath)
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

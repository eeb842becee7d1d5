package critest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func badInputCases() []testCase {
	return []testCase{
		{"a sandbox without a config is refused", func(e *env) {
			_, err := e.Runtime.RunPodSandbox(e.ctx, nil, "")
			e.refused(err)
		}},
		{"a sandbox without metadata is refused", func(e *env) {
			pod := e.hostPod()
			metadata := pod.Metadata
			pod.Metadata = nil
			_, err := e.Runtime.RunPodSandbox(e.ctx, pod, "")
			e.refused(err)
			pod.Metadata = metadata
			require.Empty(e.t, e.sandboxes(pod))
		}},
		{"a sandbox without a name gets a reply", badSandboxConfig(func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Name = "" })},
		{"a sandbox without a namespace gets a reply", badSandboxConfig(func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Namespace = "" })},
		{"a sandbox without a uid gets a reply", badSandboxConfig(func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Uid = "" })},
		{"a sandbox without a linux section gets a reply", badSandboxConfig(func(c *runtimeapi.PodSandboxConfig) { c.Linux = nil })},
		{"a sandbox with a label of 1 MiB gets a reply", badSandboxConfig(func(c *runtimeapi.PodSandboxConfig) { c.Labels["big"] = mebibyte() })},
		{"a sandbox with an annotation of 1 MiB gets a reply", badSandboxConfig(func(c *runtimeapi.PodSandboxConfig) { c.Annotations["big"] = mebibyte() })},
		{"a sandbox with a label without a key gets a reply", badSandboxConfig(func(c *runtimeapi.PodSandboxConfig) { c.Labels[""] = "" })},
		{"a sandbox with a host name too long gets a reply", badSandboxConfig(func(c *runtimeapi.PodSandboxConfig) { c.Hostname = strings.Repeat("h", 300) })},
		{"a sandbox with a sysctl that does not exist gets a reply", badSandboxConfig(func(c *runtimeapi.PodSandboxConfig) {
			c.Linux.Sysctls = map[string]string{"net.critest.none": "1"}
		})},
		{"a container without a config is refused", func(e *env) {
			pod, sandbox := e.runHost()
			_, err := e.Runtime.CreateContainer(e.ctx, sandbox, nil, pod)
			e.refused(err)
			require.Empty(e.t, e.containers(sandbox))
		}},
		{"a container without a sandbox config gets a reply", func(e *env) {
			if !e.Hardened {
				e.t.Skip("Subject.Hardened is false: such a request may end the runtime")
			}
			sandbox := e.run(e.hostPod())
			for _, pod := range []*runtimeapi.PodSandboxConfig{nil, {}} {
				_, err := e.Runtime.CreateContainer(e.ctx, sandbox, e.container("c", sleepProgram.command()...), pod)
				if err != nil {
					e.refused(err)
				}
			}
			require.Equal(e.t, runtimeapi.PodSandboxState_SANDBOX_READY, e.sandbox(sandbox).GetState())
		}},
		{"a container without metadata is refused", badContainer(refused, func(c *runtimeapi.ContainerConfig) { c.Metadata = nil })},
		{"a container without a name gets a reply", badContainer(either, func(c *runtimeapi.ContainerConfig) { c.Metadata.Name = "" })},
		{"a container without an image is refused", badContainer(fails, func(c *runtimeapi.ContainerConfig) { c.Image = nil })},
		{"a container with an empty image is refused", badContainer(fails, func(c *runtimeapi.ContainerConfig) { c.Image.Image = "" })},
		{"a container with an image that is not present is NotFound", badContainer(missing, func(c *runtimeapi.ContainerConfig) { c.Image.Image = absentImage })},
		{"a container with an image that is no reference is refused", badContainer(fails, func(c *runtimeapi.ContainerConfig) { c.Image.Image = "NO reference!" })},
		{"a container with a label of 1 MiB gets a reply", badContainer(either, func(c *runtimeapi.ContainerConfig) { c.Labels["big"] = mebibyte() })},
		{"a container with an annotation of 1 MiB gets a reply", badContainer(either, func(c *runtimeapi.ContainerConfig) {
			c.Annotations = map[string]string{"big": mebibyte()}
		})},
		{"a container without a linux section gets a reply", badContainer(either, func(c *runtimeapi.ContainerConfig) { c.Linux = nil })},
		{"a container with a relative folder gets a reply", badContainer(either, func(c *runtimeapi.ContainerConfig) { c.WorkingDir = "relative" })},
		{"a container with a variable without a name gets a reply", badContainer(either, func(c *runtimeapi.ContainerConfig) {
			c.Envs = []*runtimeapi.KeyValue{{Value: []byte("value")}}
		})},
		{"invalid ids are NotFound", func(e *env) {
			for _, id := range []string{mebibyte(), "../../etc", "a b", "%s"} {
				e.noContainer(id)
				e.noSandbox(id)
				require.NoError(e.t, ignoreNotFound(e.Runtime.RemoveContainer(e.ctx, id)))
				require.NoError(e.t, ignoreNotFound(e.Runtime.RemovePodSandbox(e.ctx, id)))
			}
		}},
		{"invalid filters select nothing", func(e *env) {
			e.run(e.hostPod())
			for _, filter := range []*runtimeapi.PodSandboxFilter{
				{Id: mebibyte()}, {LabelSelector: map[string]string{mebibyte(): ""}}, {LabelSelector: map[string]string{"": "critest"}},
				{State: sandboxState(42)},
			} {
				require.Empty(e.t, e.sandboxIDs(filter))
			}
			for _, filter := range []*runtimeapi.ContainerFilter{
				{Id: mebibyte()}, {PodSandboxId: "../.."}, {LabelSelector: map[string]string{mebibyte(): ""}}, {State: containerState(42)},
			} {
				require.Empty(e.t, e.containerIDs(filter))
			}
		}},
		{"a negative grace period counts as 0", func(e *env) {
			id := e.alone(e.startReady, stubborn)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, -time.Hour))
			require.Equal(e.t, int32(137), e.status(id).GetExitCode())
		}},
		{"an update without a container is refused", func(e *env) {
			e.refused(e.Runtime.UpdateContainerResources(e.ctx, nil))
			e.refused(e.Runtime.UpdateContainerResources(e.ctx, &runtimeapi.UpdateContainerResourcesRequest{
				Linux: &runtimeapi.LinuxContainerResources{CpuShares: 300},
			}))
		}},
	}
}

func mebibyte() string { return strings.Repeat("x", 1<<20) }

// badSandboxConfig runs a sandbox that a runtime may refuse or accept. The runtime lists the
// sandbox only if it accepted it.
func badSandboxConfig(spoil func(c *runtimeapi.PodSandboxConfig)) func(e *env) {
	return func(e *env) {
		pod := e.pod()
		spoil(pod)
		id, err := e.Runtime.RunPodSandbox(e.ctx, pod, "")
		filter := &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"critest": pod.Labels["critest"]}}
		if err != nil {
			e.refused(err)
			require.Empty(e.t, e.sandboxIDs(filter))
			return
		}
		e.t.Cleanup(func() { e.removePod(id) })
		require.Equal(e.t, []string{id}, e.sandboxIDs(filter))
		require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, id))
		require.NoError(e.t, e.Runtime.RemovePodSandbox(e.ctx, id))
		require.Empty(e.t, e.sandboxIDs(filter))
	}
}

// badContainer creates and starts a container. A refused container must not exist.
func badContainer(want answer, spoil func(c *runtimeapi.ContainerConfig)) func(e *env) {
	return func(e *env) {
		pod, sandbox := e.runHost()
		config := e.container("c", sleepProgram.command()...)
		spoil(config)
		id, err := e.Runtime.CreateContainer(e.ctx, sandbox, config, pod)
		want.judge(e, err)
		if err != nil {
			require.Empty(e.t, e.containers(sandbox))
			return
		}
		if err := e.Runtime.StartContainer(e.ctx, id); err != nil {
			e.refused(err)
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_EXITED, e.status(id).GetState())
		}
		require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
	}
}

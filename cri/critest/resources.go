package critest

import (
	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func resourceCases() []testCase {
	return []testCase{
		{"the status shows the resources of the config", func(e *env) {
			pod := e.hostPod()
			config := limited(e, "c")
			id := e.start(e.run(pod), config, pod)
			got, want := e.resources(id), config.Linux.Resources
			require.Equal(e.t, want.CpuPeriod, got.GetCpuPeriod())
			require.Equal(e.t, want.CpuQuota, got.GetCpuQuota())
			require.Equal(e.t, want.CpuShares, got.GetCpuShares())
			require.Equal(e.t, want.MemoryLimitInBytes, got.GetMemoryLimitInBytes())
		}},
		{"an update of a running container shows", func(e *env) {
			pod := e.hostPod()
			id := e.start(e.run(pod), limited(e, "c"), pod)
			require.NoError(e.t, e.Runtime.UpdateContainerResources(e.ctx, sharesOf(id, 300)))
			require.Equal(e.t, int64(300), e.resources(id).GetCpuShares())
			require.NoError(e.t, e.Runtime.UpdateContainerResources(e.ctx, &runtimeapi.UpdateContainerResourcesRequest{
				ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 128 << 20, CpuQuota: 20_000, CpuPeriod: 100_000},
			}))
			require.Equal(e.t, int64(128<<20), e.resources(id).GetMemoryLimitInBytes())
			require.Equal(e.t, int64(20_000), e.resources(id).GetCpuQuota())
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, e.status(id).GetState())
		}},
		{"an update keeps unnamed values", func(e *env) {
			pod := e.hostPod()
			id := e.start(e.run(pod), limited(e, "c"), pod)
			require.NoError(e.t, e.Runtime.UpdateContainerResources(e.ctx, sharesOf(id, 300)))
			got := e.resources(id)
			require.Equal(e.t, int64(100_000), got.GetCpuPeriod())
			require.Equal(e.t, int64(50_000), got.GetCpuQuota())
			require.Equal(e.t, int64(64<<20), got.GetMemoryLimitInBytes())
		}},
		{"an update of a created container applies when it runs", func(e *env) {
			pod := e.hostPod()
			id := e.create(e.run(pod), limited(e, "c"), pod)
			require.NoError(e.t, e.Runtime.UpdateContainerResources(e.ctx, sharesOf(id, 300)))
			require.Equal(e.t, int64(300), e.resources(id).GetCpuShares())
			require.NoError(e.t, e.Runtime.StartContainer(e.ctx, id))
			require.Equal(e.t, int64(300), e.resources(id).GetCpuShares())
		}},
		{"an update of one container does not affect others", func(e *env) {
			pod, sandbox := e.runHost()
			a, b := e.start(sandbox, limited(e, "a"), pod), e.start(sandbox, limited(e, "b"), pod)
			require.NoError(e.t, e.Runtime.UpdateContainerResources(e.ctx, sharesOf(a, 300)))
			require.Equal(e.t, int64(300), e.resources(a).GetCpuShares())
			require.Equal(e.t, int64(512), e.resources(b).GetCpuShares())
		}},
		{"an update without resources changes nothing", func(e *env) {
			pod := e.hostPod()
			id := e.start(e.run(pod), limited(e, "c"), pod)
			before := e.resources(id)
			require.NoError(e.t, e.Runtime.UpdateContainerResources(e.ctx, &runtimeapi.UpdateContainerResourcesRequest{
				ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{},
			}))
			e.same(before, e.resources(id))
		}},
	}
}

func sharesOf(id string, shares int64) *runtimeapi.UpdateContainerResourcesRequest {
	return &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{CpuShares: shares},
	}
}

func limited(e *env, name string) *runtimeapi.ContainerConfig {
	config := e.container(name, sleepProgram.command()...)
	config.Linux.Resources = &runtimeapi.LinuxContainerResources{
		CpuPeriod: 100_000, CpuQuota: 50_000, CpuShares: 512, MemoryLimitInBytes: 64 << 20,
	}
	return config
}

// resources returns a container's resources. It skips the case if the runtime does not report them.
func (e *env) resources(id string) *runtimeapi.LinuxContainerResources {
	e.t.Helper()
	linux := e.status(id).GetResources().GetLinux()
	if linux == nil {
		e.lacks("ContainerStatus.Resources")
	}
	return linux
}

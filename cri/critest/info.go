package critest

import (
	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func infoCases() []testCase {
	return []testCase{
		{"the version has all four parts", func(e *env) {
			version, err := e.Runtime.Version(e.ctx)
			require.NoError(e.t, err)
			require.Equal(e.t, "0.1.0", version.GetVersion())
			require.NotEmpty(e.t, version.GetRuntimeName())
			require.NotContains(e.t, version.GetRuntimeName(), ":", "it is the scheme of container ids")
			require.NotEmpty(e.t, version.GetRuntimeVersion())
			require.NotEmpty(e.t, version.GetRuntimeApiVersion())
			again, err := e.Runtime.Version(e.ctx)
			require.NoError(e.t, err)
			e.same(version, again)
		}},
		{"the status has both conditions, and they are true", func(e *env) {
			response, err := e.Runtime.Status(e.ctx, false)
			require.NoError(e.t, err)
			conditions := map[string]bool{}
			for _, condition := range response.GetStatus().GetConditions() {
				require.NotContains(e.t, conditions, condition.GetType())
				conditions[condition.GetType()] = condition.GetStatus()
			}
			require.True(e.t, conditions[runtimeapi.RuntimeReady])
			require.True(e.t, conditions[runtimeapi.NetworkReady])
			handlers := map[string]bool{}
			for _, handler := range response.GetRuntimeHandlers() {
				require.False(e.t, handlers[handler.GetName()], "%q is named twice", handler.GetName())
				handlers[handler.GetName()] = true
			}
			if len(handlers) == 0 {
				e.report.lacks("StatusResponse.runtime_handlers")
			}
		}},
		{"only a verbose runtime status has details", func(e *env) {
			plain, err := e.Runtime.Status(e.ctx, false)
			require.NoError(e.t, err)
			require.Empty(e.t, plain.GetInfo())
			verbose, err := e.Runtime.Status(e.ctx, true)
			require.NoError(e.t, err)
			require.NotEmpty(e.t, verbose.GetInfo())
		}},
		{"the runtime's configuration names a cgroup driver", func(e *env) {
			config, err := e.Runtime.RuntimeConfig(e.ctx)
			e.optional("RuntimeConfig", err)
			require.NoError(e.t, err)
			if config.GetLinux() != nil {
				require.Contains(e.t, runtimeapi.CgroupDriver_name, int32(config.GetLinux().GetCgroupDriver()))
			}
		}},
		// The case sends no pod CIDR, which would change a shared runtime.
		{"an empty runtime configuration is accepted", func(e *env) {
			require.NoError(e.t, e.Runtime.UpdateRuntimeConfig(e.ctx, nil))
			require.NoError(e.t, e.Runtime.UpdateRuntimeConfig(e.ctx, &runtimeapi.RuntimeConfig{}))
			require.NoError(e.t, e.Runtime.UpdateRuntimeConfig(e.ctx, &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{}}))
			require.NotEmpty(e.t, e.sandbox(e.run(e.pod())).GetNetwork().GetIp())
		}},
		{"metrics are described", func(e *env) {
			descriptors, err := e.Runtime.ListMetricDescriptors(e.ctx)
			e.optional("ListMetricDescriptors", err)
			require.NoError(e.t, err)
			for _, descriptor := range descriptors {
				require.NotEmpty(e.t, descriptor.GetName())
			}
		}},
		{"metrics are listed by sandbox", func(e *env) {
			e.alone(e.start, sleepProgram)
			metrics, err := e.Runtime.ListPodSandboxMetrics(e.ctx)
			e.optional("ListPodSandboxMetrics", err)
			require.NoError(e.t, err)
			seen := map[string]bool{}
			for _, sandbox := range metrics {
				require.NotEmpty(e.t, sandbox.GetPodSandboxId())
				require.False(e.t, seen[sandbox.GetPodSandboxId()], "a sandbox is listed twice")
				seen[sandbox.GetPodSandboxId()] = true
			}
		}},
		{"a checkpoint of an unknown container is refused", func(e *env) {
			err := e.Runtime.CheckpointContainer(e.ctx, &runtimeapi.CheckpointContainerRequest{
				ContainerId: absentID, Location: e.t.TempDir() + "/checkpoint.tar",
			})
			e.optional("CheckpointContainer", err)
			e.refused(err)
		}},
		// A runtime may implement the call and yet refuse it.
		{"the resources of a sandbox can be updated", func(e *env) {
			id := e.run(e.hostPod())
			err := e.Runtime.UpdatePodSandboxResources(e.ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{
				PodSandboxId: id, Resources: &runtimeapi.LinuxContainerResources{CpuShares: 300},
			})
			e.optional("UpdatePodSandboxResources", err)
			if err != nil {
				e.refused(err)
				e.lacks("UpdatePodSandboxResources")
			}
			require.Equal(e.t, runtimeapi.PodSandboxState_SANDBOX_READY, e.sandbox(id).GetState())
		}},
	}
}

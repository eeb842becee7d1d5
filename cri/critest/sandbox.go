package critest

import (
	"net/netip"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

func sandboxCases() []testCase {
	return []testCase{
		{"a sandbox runs, stops and is removed", func(e *env) {
			pod := e.pod()
			id := e.run(pod)
			require.NotEmpty(e.t, id)
			require.Equal(e.t, runtimeapi.PodSandboxState_SANDBOX_READY, e.sandbox(id).GetState())
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, id))
			e.notReady(id)
			require.NoError(e.t, e.Runtime.RemovePodSandbox(e.ctx, id))
			e.noSandbox(id)
			require.Empty(e.t, e.sandboxes(pod))
		}},
		{"the status repeats the config", func(e *env) {
			pod := e.pod()
			pod.Metadata.Attempt = 7
			id := e.run(pod)
			s := e.sandbox(id)
			require.Equal(e.t, id, s.GetId())
			e.same(pod.Metadata, s.GetMetadata())
			require.Equal(e.t, pod.Labels, s.GetLabels())
			require.Equal(e.t, pod.Annotations, s.GetAnnotations())
			require.Empty(e.t, s.GetRuntimeHandler(), "the default handler has no name")
		}},
		{"labels and annotations come back as they were given", func(e *env) {
			pod := e.hostPod()
			odd := map[string]string{"a b/ü": "\"quoted\"\n\ttext", "empty": "", "critest": pod.Metadata.Uid}
			pod.Labels, pod.Annotations = odd, odd
			s := e.sandbox(e.run(pod))
			require.Equal(e.t, odd, s.GetLabels())
			require.Equal(e.t, odd, s.GetAnnotations())
		}},
		{"the creation time is the time of the call", func(e *env) {
			before := time.Now()
			first := e.sandbox(e.run(e.hostPod())).GetCreatedAt()
			e.recent(before, first)
			second := e.run(e.hostPod())
			require.GreaterOrEqual(e.t, e.sandbox(second).GetCreatedAt(), first)
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, second))
			at := e.sandbox(second).GetCreatedAt()
			e.recent(before, at)
			require.GreaterOrEqual(e.t, at, first, "a stop does not change the time of creation")
		}},
		{"each sandbox has an address of its own", func(e *env) {
			seen := map[netip.Addr]bool{}
			for range 3 {
				network := e.sandbox(e.run(e.pod())).GetNetwork()
				addresses := []string{network.GetIp()}
				for _, more := range network.GetAdditionalIps() {
					addresses = append(addresses, more.GetIp())
				}
				for _, text := range addresses {
					address, err := netip.ParseAddr(text)
					require.NoError(e.t, err)
					require.False(e.t, seen[address], "%v is taken", address)
					require.False(e.t, address.IsUnspecified() || address.IsLoopback(), "%v", address)
					seen[address] = true
				}
			}
		}},
		{"a sandbox on the host's network has no address", func(e *env) {
			s := e.sandbox(e.run(e.hostPod()))
			require.Empty(e.t, s.GetNetwork().GetIp())
			require.Empty(e.t, s.GetNetwork().GetAdditionalIps())
		}},
		{"the status names the namespaces", func(e *env) {
			private := e.sandbox(e.run(e.pod())).GetLinux().GetNamespaces().GetOptions()
			require.Equal(e.t, runtimeapi.NamespaceMode_POD, private.GetNetwork())
			host := e.sandbox(e.run(e.hostPod())).GetLinux().GetNamespaces().GetOptions()
			require.Equal(e.t, runtimeapi.NamespaceMode_NODE, host.GetNetwork())
			require.Equal(e.t, runtimeapi.NamespaceMode_POD, host.GetIpc())
		}},
		{"only a verbose status has details", func(e *env) {
			id := e.run(e.hostPod())
			plain, err := e.Runtime.PodSandboxStatus(e.ctx, id, false)
			require.NoError(e.t, err)
			require.Empty(e.t, plain.GetInfo())
			verbose, err := e.Runtime.PodSandboxStatus(e.ctx, id, true)
			require.NoError(e.t, err)
			require.NotEmpty(e.t, verbose.GetInfo())
			e.same(plain.GetStatus(), verbose.GetStatus())
		}},
		{"a stopped sandbox stays, not ready and without its address", func(e *env) {
			pod := e.pod()
			id := e.run(pod)
			before := e.sandbox(id)
			require.NotEmpty(e.t, before.GetNetwork().GetIp())
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, id))
			after := e.notReady(id)
			require.Empty(e.t, after.GetNetwork().GetIp())
			require.Equal(e.t, before.GetCreatedAt(), after.GetCreatedAt())
			e.same(before.GetMetadata(), after.GetMetadata())
			require.Equal(e.t, before.GetLabels(), after.GetLabels())
			require.Equal(e.t, before.GetAnnotations(), after.GetAnnotations())
			require.Len(e.t, e.sandboxes(pod), 1)
		}},
		{"stopping a sandbox ends its containers and keeps them", func(e *env) {
			pod, id := e.runHost()
			running := e.start(id, e.container("running", stubborn.command()...), pod)
			created := e.create(id, e.container("created", sleeper.command()...), pod)
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, id))
			s := e.status(running)
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_EXITED, s.GetState())
			require.Equal(e.t, int32(137), s.GetExitCode(), "there is no grace")
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_CREATED, e.status(created).GetState())
			require.Len(e.t, e.containers(id), 2)
		}},
		{"removing a sandbox removes containers that run", func(e *env) {
			pod, id := e.runHost()
			container := e.start(id, e.container("c", stubborn.command()...), pod)
			require.NoError(e.t, e.Runtime.RemovePodSandbox(e.ctx, id))
			e.noContainer(container)
			e.noSandbox(id)
			require.Empty(e.t, e.containers(id))
		}},
		{"removing a sandbox removes containers in every state", func(e *env) {
			pod, id := e.runHost()
			containers := []string{
				e.create(id, e.container("created", sleeper.command()...), pod),
				e.start(id, e.container("running", sleeper.command()...), pod),
				e.start(id, e.container("exited", exit3.command()...), pod),
			}
			e.exited(containers[2])
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, id))
			require.NoError(e.t, e.Runtime.RemovePodSandbox(e.ctx, id))
			for _, container := range containers {
				e.noContainer(container)
			}
			require.Empty(e.t, e.containers(id))
		}},
		{"a successor runs while its predecessor is stopped", func(e *env) {
			pod := e.pod()
			first := e.run(pod)
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, first))
			pod.Metadata.Attempt++
			second := e.run(pod)
			require.NotEqual(e.t, first, second)
			require.Equal(e.t, uint32(1), e.sandbox(second).GetMetadata().GetAttempt())
			require.Equal(e.t, runtimeapi.PodSandboxState_SANDBOX_READY, e.sandbox(second).GetState())
			e.notReady(first)
			require.Zero(e.t, e.sandbox(first).GetMetadata().GetAttempt())
			require.Len(e.t, e.sandboxes(pod), 2)
			require.NoError(e.t, e.Runtime.RemovePodSandbox(e.ctx, first))
			require.Equal(e.t, runtimeapi.PodSandboxState_SANDBOX_READY, e.sandbox(second).GetState(), "one is removed, one stays")
		}},
		{"an unknown handler is refused without leftovers", func(e *env) {
			pod := e.pod()
			_, err := e.Runtime.RunPodSandbox(e.ctx, pod, "critest-no-such-handler")
			e.refused(err)
			require.Empty(e.t, e.sandboxes(pod))
			e.run(pod)
		}},
		{"containers have the sandbox's hostname", func(e *env) {
			pod := e.pod()
			pod.Hostname = "critest-host"
			require.Equal(e.t, "critest-host", e.printedEnv(pod, e.container("c", envPrinter.command()...))["hostname"])
		}},
		{"a namespaced sysctl is accepted", func(e *env) {
			pod := e.pod()
			pod.Linux.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "80"}
			require.Equal(e.t, runtimeapi.PodSandboxState_SANDBOX_READY, e.sandbox(e.run(pod)).GetState())
		}},
	}
}

// ignoreNotFound replaces NotFound with nil, as callers do after a stop or a removal.
func ignoreNotFound(err error) error {
	if cri.IsNotFound(err) {
		return nil
	}
	return err
}

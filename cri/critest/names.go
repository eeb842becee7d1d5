package critest

import (
	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func nameCases() []testCase {
	return []testCase{
		{"a sandbox's name is its own while it exists", func(e *env) {
			pod, id := e.runHost()
			_, err := e.Runtime.RunPodSandbox(e.ctx, pod, "")
			e.refused(err)
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, id))
			_, err = e.Runtime.RunPodSandbox(e.ctx, pod, "")
			e.refused(err)
			require.Len(e.t, e.sandboxes(pod), 1)
			require.Equal(e.t, id, e.sandboxes(pod)[0].GetId())
		}},
		{"each part of a sandbox's name counts", func(e *env) {
			pod := e.hostPod()
			e.run(pod)
			for _, change := range []func(m *runtimeapi.PodSandboxMetadata){
				func(m *runtimeapi.PodSandboxMetadata) { m.Attempt++ },
				func(m *runtimeapi.PodSandboxMetadata) { m.Name += "-other" },
				func(m *runtimeapi.PodSandboxMetadata) { m.Namespace += "-other" },
				func(m *runtimeapi.PodSandboxMetadata) { m.Uid += "-other" },
			} {
				change(pod.Metadata)
				e.run(pod)
			}
			require.Len(e.t, e.sandboxes(&runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Uid: pod.Labels["critest"]}}), 5)
		}},
		{"removal frees a sandbox's name", func(e *env) {
			pod, first := e.runHost()
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, first))
			require.NoError(e.t, e.Runtime.RemovePodSandbox(e.ctx, first))
			require.NotEqual(e.t, first, e.run(pod), "ids are not used again")
		}},
		{"a sandbox that failed to run frees its name", func(e *env) {
			pod := e.hostPod()
			for range 2 {
				_, err := e.Runtime.RunPodSandbox(e.ctx, pod, "critest-no-such-handler")
				e.refused(err)
			}
			e.run(pod)
		}},
		{"a container's name is its own while it exists", func(e *env) {
			pod, sandbox := e.runHost()
			config := e.container("c", exit0.command()...)
			id := e.create(sandbox, config, pod)
			again := func() {
				e.t.Helper()
				_, err := e.Runtime.CreateContainer(e.ctx, sandbox, config, pod)
				e.refused(err)
			}
			again()
			require.NoError(e.t, e.Runtime.StartContainer(e.ctx, id))
			again()
			e.exited(id)
			again()
			require.Len(e.t, e.containers(sandbox), 1)
		}},
		{"each part of a container's name counts", func(e *env) {
			pod, other := e.hostPod(), e.hostPod()
			sandbox := e.run(pod)
			config := e.container("c", sleeper.command()...)
			e.create(sandbox, config, pod)
			config.Metadata.Attempt++
			e.create(sandbox, config, pod)
			config.Metadata.Name = "d"
			e.create(sandbox, config, pod)
			require.Len(e.t, e.containers(sandbox), 3)
			e.create(e.run(other), config, other)
		}},
		{"removal frees a container's name", func(e *env) {
			pod, sandbox := e.runHost()
			config := e.container("c", exit0.command()...)
			first := e.start(sandbox, config, pod)
			e.exited(first)
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, first))
			require.NotEqual(e.t, first, e.create(sandbox, config, pod), "ids are not used again")
		}},
		{"a container that could not be created frees its name", func(e *env) {
			pod, sandbox := e.runHost()
			config := e.container("c", exit0.command()...)
			config.Image = &runtimeapi.ImageSpec{Image: absentImage}
			_, err := e.Runtime.CreateContainer(e.ctx, sandbox, config, pod)
			e.notFound(err)
			require.Empty(e.t, e.containers(sandbox))
			e.create(sandbox, e.container("c", exit0.command()...), pod)
		}},
		{"a successor sandbox meets the container names of its predecessor", func(e *env) {
			pod, first := e.runHost()
			config := e.container("c", sleeper.command()...)
			old := e.create(first, config, pod)
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, first))
			pod.Metadata.Attempt++
			second := e.run(pod)
			_, err := e.Runtime.CreateContainer(e.ctx, second, config, pod)
			e.refused(err)
			config.Metadata.Attempt = 1
			e.create(second, config, pod)
			config.Metadata.Attempt = 0
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, old))
			e.create(second, config, pod)
			require.Len(e.t, e.containers(second), 2)
		}},
		{"removing a sandbox frees the names of its containers", func(e *env) {
			pod, first := e.runHost()
			config := e.container("c", sleeper.command()...)
			e.start(first, config, pod)
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, first))
			require.NoError(e.t, e.Runtime.RemovePodSandbox(e.ctx, first))
			e.start(e.run(pod), config, pod)
		}},
	}
}

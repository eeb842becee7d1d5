package critest

import (
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func idempotenceCases() []testCase {
	return []testCase{
		{"stopping a container again does nothing", func(e *env) {
			id := e.alone(e.startReady, sleeper)
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
			first := e.status(id)
			for _, grace := range []time.Duration{time.Minute, 0, time.Second} {
				require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, grace))
			}
			e.same(first, e.status(id))
		}},
		{"removing a container again does nothing", func(e *env) {
			pod, sandbox := e.runHost()
			other := e.create(sandbox, e.container("other", sleeper.command()...), pod)
			id := e.create(sandbox, e.container("c", sleeper.command()...), pod)
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
			for range 3 {
				require.NoError(e.t, ignoreNotFound(e.Runtime.RemoveContainer(e.ctx, id)))
			}
			require.Equal(e.t, []string{other}, e.containerIDs(&runtimeapi.ContainerFilter{PodSandboxId: sandbox}))
		}},
		{"stopping a sandbox again does nothing", func(e *env) {
			pod := e.pod()
			id := e.run(pod)
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, id))
			first := e.notReady(id)
			for range 3 {
				require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, id))
			}
			e.same(first, e.sandbox(id))
		}},
		{"removing a sandbox again does nothing", func(e *env) {
			pod := e.pod()
			id := e.run(pod)
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, id))
			require.NoError(e.t, e.Runtime.RemovePodSandbox(e.ctx, id))
			for range 3 {
				require.NoError(e.t, ignoreNotFound(e.Runtime.RemovePodSandbox(e.ctx, id)))
			}
		}},
		{"stopping a removed object has no effect", func(e *env) {
			pod, sandbox := e.runHost()
			container := e.create(sandbox, e.container("c", sleeper.command()...), pod)
			require.NoError(e.t, e.Runtime.RemovePodSandbox(e.ctx, sandbox))
			for range 2 {
				require.NoError(e.t, ignoreNotFound(e.Runtime.StopContainer(e.ctx, container, time.Second)))
				require.NoError(e.t, ignoreNotFound(e.Runtime.StopPodSandbox(e.ctx, sandbox)))
			}
			e.noSandbox(sandbox)
		}},
		{"an unknown object can be stopped and removed", func(e *env) {
			for range 2 {
				require.NoError(e.t, ignoreNotFound(e.Runtime.StopContainer(e.ctx, absentID, time.Second)))
				require.NoError(e.t, ignoreNotFound(e.Runtime.RemoveContainer(e.ctx, absentID)))
				require.NoError(e.t, ignoreNotFound(e.Runtime.StopPodSandbox(e.ctx, absentID)))
				require.NoError(e.t, ignoreNotFound(e.Runtime.RemovePodSandbox(e.ctx, absentID)))
			}
			e.noContainer(absentID)
		}},
		{"a sandbox is removed without having been stopped", func(e *env) {
			pod := e.pod()
			id := e.run(pod)
			require.NoError(e.t, e.Runtime.RemovePodSandbox(e.ctx, id))
			e.noSandbox(id)
			e.run(pod)
		}},
		{"containers can be removed after their sandbox stopped", func(e *env) {
			sandbox, ids := threeStates(e)
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, sandbox))
			for _, id := range ids {
				require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, time.Minute))
				require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
			}
			require.Empty(e.t, e.containers(sandbox))
			e.notReady(sandbox)
		}},
	}
}

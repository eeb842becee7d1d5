package critest

import (
	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func sandboxStates() []orderState {
	in := func(name string, prepare func(e *env, id string, pod *runtimeapi.PodSandboxConfig)) orderState {
		return orderState{name, func(e *env) string {
			pod, id := e.runHost()
			prepare(e, id, pod)
			return id
		}}
	}
	return []orderState{
		in("a ready sandbox", func(*env, string, *runtimeapi.PodSandboxConfig) {}),
		in("a sandbox with a running container", func(e *env, id string, pod *runtimeapi.PodSandboxConfig) {
			e.start(id, e.container("busy", sleepProgram.command()...), pod)
		}),
		in("a stopped sandbox", func(e *env, id string, _ *runtimeapi.PodSandboxConfig) {
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, id))
			e.notReady(id)
		}),
		in("a removed sandbox", func(e *env, id string, _ *runtimeapi.PodSandboxConfig) {
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, id))
			require.NoError(e.t, e.Runtime.RemovePodSandbox(e.ctx, id))
		}),
		{"an unknown sandbox", func(*env) string { return absentID }},
		{"an empty sandbox id", func(*env) string { return "" }},
	}
}

func sandboxCalls() []orderCall {
	return []orderCall{
		{"PodSandboxStatus", func(e *env, id string) error {
			_, err := e.Runtime.PodSandboxStatus(e.ctx, id, false)
			return err
		}},
		{"StopPodSandbox", func(e *env, id string) error { return e.Runtime.StopPodSandbox(e.ctx, id) }},
		{"RemovePodSandbox", func(e *env, id string) error { return e.Runtime.RemovePodSandbox(e.ctx, id) }},
		{"CreateContainer", createIn},
		{"PortForward", func(e *env, id string) error {
			_, err := e.Runtime.PortForward(e.ctx, &runtimeapi.PortForwardRequest{PodSandboxId: id, Port: []int32{80}})
			return err
		}},
		{"PodSandboxStats", func(e *env, id string) error {
			_, err := e.Runtime.PodSandboxStats(e.ctx, id)
			return err
		}},
		{"UpdatePodSandboxResources", func(e *env, id string) error {
			return e.Runtime.UpdatePodSandboxResources(e.ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{
				PodSandboxId: id, Resources: &runtimeapi.LinuxContainerResources{CpuShares: 300},
			})
		}},
	}
}

// createIn creates and starts a container. Some runtimes detect a stopped sandbox only at the
// start; the container must not run in any case.
func createIn(e *env, id string) error {
	pod := e.hostPod()
	container, err := e.Runtime.CreateContainer(e.ctx, id, e.container("new", sleepProgram.command()...), pod)
	if err != nil {
		return err
	}
	started := e.Runtime.StartContainer(e.ctx, container)
	if e.sandbox(id).GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		e.refused(started)
		require.NotEqual(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, e.status(container).GetState())
		return nil
	}
	return started
}

// sandboxOutcomes has a row for each of sandboxCalls and a column for each of sandboxStates: ready,
// with a running container, stopped, removed, unknown, empty id. Statistics of a sandbox have
// separate cases.
func sandboxOutcomes() [][]outcome {
	o := func(a answer) outcome { return outcome{answer: a} }
	end, ignoreNotFound := outcome{ok, stopped}, outcome{ok, removed}
	return [][]outcome{
		{o(ok), o(ok), o(ok), o(missing), o(missing), o(fails)},
		{end, end, o(ok), o(done), o(done), o(fails)},
		{ignoreNotFound, ignoreNotFound, ignoreNotFound, o(done), o(done), o(fails)},
		{o(ok), o(ok), o(either), o(missing), o(missing), o(fails)},
		{o(ok), o(ok), o(refused), o(missing), o(missing), o(fails)},
		{o(either), o(either), o(either), o(missing), o(missing), o(fails)},
		{o(either), o(either), o(either), o(fails), o(fails), o(fails)},
	}
}

func sandboxAfter(e *env, id string) func(after) {
	before, err := e.Runtime.PodSandboxStatus(e.ctx, id, false)
	if err != nil {
		return func(after) {
			_, err := e.Runtime.PodSandboxStatus(e.ctx, id, false)
			e.refused(err)
		}
	}
	return func(want after) {
		e.t.Helper()
		switch want {
		case removed:
			e.noSandbox(id)
			require.Empty(e.t, e.containers(id))
		case stopped:
			e.notReady(id)
			for _, container := range e.containers(id) {
				require.NotEqual(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, container.GetState())
			}
		default:
			e.same(before.GetStatus(), e.sandbox(id))
		}
	}
}

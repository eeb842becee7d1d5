package critest

import (
	"slices"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func listCases() []testCase {
	return []testCase{
		{"without a filter everything is listed", func(e *env) {
			pod, other := e.hostPod(), e.hostPod()
			sandbox, stopped := e.run(pod), e.run(other)
			container := e.create(sandbox, e.container("c", sleeper.command()...), pod)
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, stopped))
			for _, filter := range []*runtimeapi.PodSandboxFilter{nil, {}, {LabelSelector: map[string]string{}}} {
				require.Subset(e.t, e.sandboxIDs(filter), []string{sandbox, stopped})
			}
			for _, filter := range []*runtimeapi.ContainerFilter{nil, {}, {LabelSelector: map[string]string{}}} {
				require.Contains(e.t, e.containerIDs(filter), container)
				require.NotContains(e.t, e.containerIDs(filter), sandbox, "a sandbox is not a container")
			}
		}},
		{"a sandbox is found by its id", func(e *env) {
			id := e.run(e.hostPod())
			e.run(e.hostPod())
			require.Equal(e.t, []string{id}, e.sandboxIDs(&runtimeapi.PodSandboxFilter{Id: id}))
		}},
		{"sandboxes are selected by state", func(e *env) {
			ready, stopped := e.run(e.hostPod()), e.run(e.hostPod())
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, stopped))
			e.notReady(stopped)
			isReady := e.sandboxIDs(&runtimeapi.PodSandboxFilter{State: sandboxState(runtimeapi.PodSandboxState_SANDBOX_READY)})
			require.Contains(e.t, isReady, ready)
			require.NotContains(e.t, isReady, stopped)
			notReady := e.sandboxIDs(&runtimeapi.PodSandboxFilter{State: sandboxState(runtimeapi.PodSandboxState_SANDBOX_NOTREADY)})
			require.Contains(e.t, notReady, stopped)
			require.NotContains(e.t, notReady, ready)
		}},
		{"sandboxes are selected by labels", func(e *env) {
			one, two := e.hostPod(), e.hostPod()
			uid := one.Metadata.Uid
			one.Labels = map[string]string{"critest": uid, "tier": "one"}
			two.Labels = map[string]string{"critest": uid, "tier": "two"}
			first, second := e.run(one), e.run(two)
			by := func(labels map[string]string) []string {
				return e.sandboxIDs(&runtimeapi.PodSandboxFilter{LabelSelector: labels})
			}
			require.ElementsMatch(e.t, []string{first, second}, by(map[string]string{"critest": uid}))
			require.Equal(e.t, []string{first}, by(map[string]string{"critest": uid, "tier": "one"}))
			require.Empty(e.t, by(map[string]string{"critest": uid, "tier": "three"}))
			require.Empty(e.t, by(map[string]string{"critest": uid, "absent": ""}), "an empty value is not an absent label")
			require.Empty(e.t, by(map[string]string{"critest": ""}), "labels are compared whole")
		}},
		{"a container is found by its id", func(e *env) {
			_, ids := threeStates(e)
			for _, id := range ids {
				require.Equal(e.t, []string{id}, e.containerIDs(&runtimeapi.ContainerFilter{Id: id}))
			}
		}},
		{"containers are selected by state", func(e *env) {
			sandbox, ids := threeStates(e)
			for state, id := range ids {
				require.Equal(e.t, []string{id}, e.containerIDs(&runtimeapi.ContainerFilter{PodSandboxId: sandbox, State: containerState(state)}))
				all := e.containerIDs(&runtimeapi.ContainerFilter{State: containerState(state)})
				for other, otherID := range ids {
					require.Equal(e.t, other == state, slices.Contains(all, otherID), "%v among %v", other, state)
				}
			}
			require.Empty(e.t, e.containerIDs(&runtimeapi.ContainerFilter{
				PodSandboxId: sandbox, State: containerState(runtimeapi.ContainerState_CONTAINER_UNKNOWN),
			}))
		}},
		{"containers are selected by sandbox", func(e *env) {
			sandbox, ids := threeStates(e)
			other, _ := threeStates(e)
			mine := e.containerIDs(&runtimeapi.ContainerFilter{PodSandboxId: sandbox})
			require.Len(e.t, mine, 3)
			for _, id := range ids {
				require.Contains(e.t, mine, id)
			}
			require.Len(e.t, e.containerIDs(&runtimeapi.ContainerFilter{PodSandboxId: other}), 3)
		}},
		{"containers are selected by labels", func(e *env) {
			pod, sandbox := e.runHost()
			uid := pod.Metadata.Uid
			create := func(name string) string {
				config := e.container(name, sleeper.command()...)
				config.Labels = map[string]string{"critest/uid": uid, "critest/name": name}
				return e.create(sandbox, config, pod)
			}
			a, b := create("a"), create("b")
			by := func(labels map[string]string) []string {
				return e.containerIDs(&runtimeapi.ContainerFilter{LabelSelector: labels})
			}
			require.ElementsMatch(e.t, []string{a, b}, by(map[string]string{"critest/uid": uid}))
			require.Equal(e.t, []string{b}, by(map[string]string{"critest/uid": uid, "critest/name": "b"}))
			require.Empty(e.t, by(map[string]string{"critest/uid": uid, "critest/name": "c"}))
			require.Empty(e.t, by(map[string]string{"critest": uid}), "the pod's labels are not the container's")
		}},
		{"the parts of a filter all count", func(e *env) {
			sandbox, ids := threeStates(e)
			other, _ := threeStates(e)
			running := ids[runtimeapi.ContainerState_CONTAINER_RUNNING]
			isRunning := containerState(runtimeapi.ContainerState_CONTAINER_RUNNING)
			labels := map[string]string{"critest/container": "running"}
			require.Equal(e.t, []string{running}, e.containerIDs(&runtimeapi.ContainerFilter{
				Id: running, PodSandboxId: sandbox, State: isRunning, LabelSelector: labels,
			}))
			for name, filter := range map[string]*runtimeapi.ContainerFilter{
				"sandbox": {Id: running, PodSandboxId: other},
				"state":   {Id: running, State: containerState(runtimeapi.ContainerState_CONTAINER_EXITED)},
				"labels":  {Id: running, LabelSelector: map[string]string{"critest/container": "created"}},
			} {
				require.Empty(e.t, e.containerIDs(filter), name)
			}
			ready, notReady := sandboxState(runtimeapi.PodSandboxState_SANDBOX_READY), sandboxState(runtimeapi.PodSandboxState_SANDBOX_NOTREADY)
			require.Equal(e.t, []string{sandbox}, e.sandboxIDs(&runtimeapi.PodSandboxFilter{Id: sandbox, State: ready}))
			require.Empty(e.t, e.sandboxIDs(&runtimeapi.PodSandboxFilter{Id: sandbox, State: notReady}))
			require.Empty(e.t, e.sandboxIDs(&runtimeapi.PodSandboxFilter{Id: sandbox, LabelSelector: map[string]string{"critest": "no"}}))
		}},
		{"unknown ids select nothing and are no error", func(e *env) {
			for _, id := range []string{absentID, "critest"} {
				require.Empty(e.t, e.sandboxIDs(&runtimeapi.PodSandboxFilter{Id: id}))
				require.Empty(e.t, e.containerIDs(&runtimeapi.ContainerFilter{Id: id}))
				require.Empty(e.t, e.containerIDs(&runtimeapi.ContainerFilter{PodSandboxId: id}))
			}
		}},
		// Runtimes may complete a part of an id; callers use whole ids.
		{"a part of an id selects nothing else", func(e *env) {
			sandbox, ids := threeStates(e)
			id := ids[runtimeapi.ContainerState_CONTAINER_RUNNING]
			part := func(id string) string { return id[:len(id)-1] }
			require.Subset(e.t, []string{sandbox}, e.sandboxIDs(&runtimeapi.PodSandboxFilter{Id: part(sandbox)}))
			require.Subset(e.t, []string{id}, e.containerIDs(&runtimeapi.ContainerFilter{Id: part(id)}))
			all := e.containerIDs(&runtimeapi.ContainerFilter{PodSandboxId: sandbox})
			require.Subset(e.t, all, e.containerIDs(&runtimeapi.ContainerFilter{PodSandboxId: part(sandbox)}))
		}},
		{"a listed sandbox agrees with its status", func(e *env) {
			pod := e.pod()
			pod.Metadata.Attempt = 2
			id := e.run(pod)
			compare := func() {
				list, s := e.sandboxes(pod), e.sandbox(id)
				require.Len(e.t, list, 1)
				e.same(&runtimeapi.PodSandbox{
					Id: s.GetId(), Metadata: s.GetMetadata(), State: s.GetState(), CreatedAt: s.GetCreatedAt(),
					Labels: s.GetLabels(), Annotations: s.GetAnnotations(), RuntimeHandler: s.GetRuntimeHandler(),
				}, list[0])
			}
			compare()
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, id))
			e.notReady(id)
			compare()
		}},
		{"a listed container agrees with its status", func(e *env) {
			sandbox, ids := threeStates(e)
			for _, entry := range e.containers(sandbox) {
				s := e.status(entry.GetId())
				require.Equal(e.t, ids[s.GetState()], entry.GetId())
				// List and status may use different names and references of the image.
				require.Equal(e.t, e.imageID(s.GetImage().GetImage()), e.imageID(entry.GetImage().GetImage()))
				require.NotEmpty(e.t, entry.GetImageRef())
				e.same(&runtimeapi.Container{
					Id: s.GetId(), PodSandboxId: sandbox, Metadata: s.GetMetadata(), State: s.GetState(), CreatedAt: s.GetCreatedAt(),
					Labels: s.GetLabels(), Annotations: s.GetAnnotations(), Image: entry.GetImage(),
					ImageRef: entry.GetImageRef(), ImageId: entry.GetImageId(),
				}, entry)
			}
		}},
		{"every entry is complete and listed once", func(e *env) {
			threeStates(e)
			sandboxes, err := e.Runtime.ListPodSandbox(e.ctx, nil)
			require.NoError(e.t, err)
			seen := map[string]bool{}
			for _, entry := range sandboxes {
				require.NotEmpty(e.t, entry.GetId())
				require.False(e.t, seen[entry.GetId()], "%v is listed twice", entry.GetId())
				seen[entry.GetId()] = true
				require.NotNil(e.t, entry.GetMetadata())
				require.NotZero(e.t, entry.GetCreatedAt())
			}
			containers, err := e.Runtime.ListContainers(e.ctx, nil)
			require.NoError(e.t, err)
			for _, entry := range containers {
				require.NotEmpty(e.t, entry.GetId())
				require.False(e.t, seen[entry.GetId()], "%v is listed twice", entry.GetId())
				seen[entry.GetId()] = true
				require.NotNil(e.t, entry.GetMetadata())
				require.NotZero(e.t, entry.GetCreatedAt())
				require.NotEmpty(e.t, entry.GetPodSandboxId())
				require.NotEmpty(e.t, entry.GetImage().GetImage())
			}
		}},
		// A runtime in the caller's process must not return the messages that it keeps (maps are
		// only read), and must not keep the messages that it receives.
		{"the caller owns the listed objects", func(e *env) {
			pod := e.hostPod()
			config := e.container("c", sleeper.command()...)
			sandbox := e.run(pod)
			id := e.create(sandbox, config, pod)
			wantSandbox, want := e.sandbox(sandbox), e.status(id)
			listed, listedContainer, changed := e.sandboxes(pod)[0], e.containers(sandbox)[0], e.status(id)
			listed.Metadata.Name, listed.State = "changed", runtimeapi.PodSandboxState_SANDBOX_NOTREADY
			listedContainer.Metadata.Name, listedContainer.Image.Image = "changed", "changed"
			changed.Metadata.Name, changed.Image.Image = "changed", "changed"
			pod.Labels["critest/changed"], pod.Metadata.Namespace = "yes", "changed"
			config.Labels["critest/changed"], config.Metadata.Attempt = "yes", 9
			e.same(wantSandbox, e.sandbox(sandbox))
			e.same(want, e.status(id))
			require.Equal(e.t, want.GetMetadata().GetName(), e.containers(sandbox)[0].GetMetadata().GetName())
			require.Equal(e.t, runtimeapi.PodSandboxState_SANDBOX_READY, e.sandboxes(pod)[0].GetState())
		}},
	}
}

func (e *env) sandboxIDs(filter *runtimeapi.PodSandboxFilter) []string {
	e.t.Helper()
	list, err := e.Runtime.ListPodSandbox(e.ctx, filter)
	require.NoError(e.t, err)
	return idsOf(list)
}

func (e *env) containerIDs(filter *runtimeapi.ContainerFilter) []string {
	e.t.Helper()
	list, err := e.Runtime.ListContainers(e.ctx, filter)
	require.NoError(e.t, err)
	return idsOf(list)
}

func idsOf[T interface{ GetId() string }](list []T) []string {
	ids := make([]string, len(list))
	for i, entry := range list {
		ids[i] = entry.GetId()
	}
	return ids
}

func sandboxState(state runtimeapi.PodSandboxState) *runtimeapi.PodSandboxStateValue {
	return &runtimeapi.PodSandboxStateValue{State: state}
}

func containerState(state runtimeapi.ContainerState) *runtimeapi.ContainerStateValue {
	return &runtimeapi.ContainerStateValue{State: state}
}

// threeStates makes a container in each state.
func threeStates(e *env) (sandbox string, ids map[runtimeapi.ContainerState]string) {
	pod := e.hostPod()
	sandbox = e.run(pod)
	ids = map[runtimeapi.ContainerState]string{
		runtimeapi.ContainerState_CONTAINER_CREATED: e.create(sandbox, e.container("created", sleeper.command()...), pod),
		runtimeapi.ContainerState_CONTAINER_RUNNING: e.start(sandbox, e.container("running", sleeper.command()...), pod),
		runtimeapi.ContainerState_CONTAINER_EXITED:  e.start(sandbox, e.container("exited", exit3.command()...), pod),
	}
	e.exited(ids[runtimeapi.ContainerState_CONTAINER_EXITED])
	return sandbox, ids
}

package fake_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

func TestLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		rt := start(t, fake.Config{AnyImage: true})
		sandboxes, ids := map[string]string{}, map[string]string{}
		for _, pod := range []string{"a", "b"} {
			sandboxID, err := rt.RunPodSandbox(ctx, podConfig(pod), "")
			require.NoError(t, err)
			sandboxes[pod] = sandboxID
			for _, name := range []string{"x", "y"} {
				id, err := rt.CreateContainer(ctx, sandboxID, containerConfig(pod, name), podConfig(pod))
				require.NoError(t, err)
				ids[pod+name] = id
			}
		}
		require.NoError(t, rt.StartContainer(ctx, ids["ay"]))
		require.NoError(t, rt.StopPodSandbox(ctx, sandboxes["b"]))
		label := func(k, v string) map[string]string { return map[string]string{k: v} }
		uid, name := "io.kubernetes.pod.uid", "io.kubernetes.container.name"
		state := func(s runtimeapi.ContainerState) *runtimeapi.ContainerStateValue {
			return &runtimeapi.ContainerStateValue{State: s}
		}
		for _, c := range []struct {
			filter *runtimeapi.ContainerFilter
			want   string
		}{
			{nil, "ax ay bx by"},
			{&runtimeapi.ContainerFilter{}, "ax ay bx by"},
			{&runtimeapi.ContainerFilter{Id: ids["bx"]}, "bx"},
			{&runtimeapi.ContainerFilter{Id: "nope"}, ""},
			{&runtimeapi.ContainerFilter{PodSandboxId: sandboxes["a"]}, "ax ay"},
			{&runtimeapi.ContainerFilter{PodSandboxId: sandboxes["a"], Id: ids["bx"]}, ""},
			{&runtimeapi.ContainerFilter{PodSandboxId: "nope"}, ""},
			{&runtimeapi.ContainerFilter{LabelSelector: label(uid, "uid-b")}, "bx by"},
			{&runtimeapi.ContainerFilter{LabelSelector: label(uid, "nope")}, ""},
			{&runtimeapi.ContainerFilter{LabelSelector: label(name, "y")}, "ay by"},
			{&runtimeapi.ContainerFilter{LabelSelector: label("nope", "")}, ""},
			{&runtimeapi.ContainerFilter{LabelSelector: label(name, "y"), PodSandboxId: sandboxes["b"]}, "by"},
			{&runtimeapi.ContainerFilter{State: state(runtimeapi.ContainerState_CONTAINER_RUNNING)}, "ay"},
			{&runtimeapi.ContainerFilter{State: state(runtimeapi.ContainerState_CONTAINER_CREATED)}, "ax bx by"},
		} {
			list, err := rt.ListContainers(ctx, c.filter)
			require.NoError(t, err)
			var got []string
			for _, entry := range list {
				got = append(got, strings.TrimPrefix(entry.Labels[uid], "uid-")+entry.Metadata.Name)
			}
			require.Equal(t, c.want, strings.Join(got, " "), "%v", c.filter)
		}
		list, err := rt.ListContainers(ctx, nil)
		require.NoError(t, err)
		list[0].Metadata.Name, list[0].Image.Image, list[0].ImageRef = "changed", "by", "the reader"
		again, err := rt.ListContainers(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, "uid-a", again[0].Labels[uid])
		require.Equal(t, "x", again[0].Metadata.Name)
		require.Equal(t, "busybox", again[0].Image.Image)
		require.Contains(t, again[0].ImageRef, "sha256:")
		require.Equal(t, sandboxes["a"], again[0].PodSandboxId)

		ready := &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}
		for _, c := range []struct {
			filter *runtimeapi.PodSandboxFilter
			want   string
		}{
			{nil, "a b"},
			{&runtimeapi.PodSandboxFilter{Id: sandboxes["b"]}, "b"},
			{&runtimeapi.PodSandboxFilter{State: ready}, "a"},
			{&runtimeapi.PodSandboxFilter{LabelSelector: label(uid, "uid-b")}, "b"},
			{&runtimeapi.PodSandboxFilter{LabelSelector: label("app", "a")}, "a"},
			{&runtimeapi.PodSandboxFilter{LabelSelector: label(uid, "nope")}, ""},
		} {
			list, err := rt.ListPodSandbox(ctx, c.filter)
			require.NoError(t, err)
			var got []string
			for _, entry := range list {
				got = append(got, entry.Metadata.Name)
			}
			require.Equal(t, c.want, strings.Join(got, " "), "%v", c.filter)
		}
	})
}

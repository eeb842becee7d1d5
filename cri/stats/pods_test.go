package stats_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/stats"
)

func TestRunningInOrder(t *testing.T) {
	var sandboxes []*runtimeapi.PodSandbox
	var containers []*runtimeapi.Container
	for i, m := range []*runtimeapi.PodSandboxMetadata{
		{Namespace: "c", Name: "a", Uid: "2"}, {Namespace: "b", Name: "c", Uid: "0"}, {Namespace: "a", Name: "b", Uid: "4"},
		{Namespace: "a", Name: "a", Uid: "5"}, {Namespace: "a", Name: "b", Uid: "3"}, {Namespace: "b", Name: "a", Uid: "1"},
	} {
		id := "s" + strconv.Itoa(i)
		sandboxes = append(sandboxes, &runtimeapi.PodSandbox{Id: id, Metadata: m, CreatedAt: 7, State: runtimeapi.PodSandboxState_SANDBOX_READY})
		containers = append(containers, &runtimeapi.Container{Id: "c", PodSandboxId: id, CreatedAt: 8, State: runtimeapi.ContainerState_CONTAINER_RUNNING})
	}
	var got []string
	for _, p := range stats.Running(sandboxes, containers) {
		got = append(got, p.Namespace+"/"+p.Name+"/"+p.UID)
		require.Equal(t, time.Unix(0, 7), p.Created)
		require.Equal(t, time.Unix(0, 8), p.Containers[0].Created)
	}
	require.Equal(t, []string{"a/a/5", "a/b/3", "a/b/4", "b/a/1", "b/c/0", "c/a/2"}, got, "by namespace, name and UID")
}

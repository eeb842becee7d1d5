package fake_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

func TestSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		rt := start(t, fake.Config{AnyImage: true, Handlers: []string{"kata"}})
		sandboxID, id := running(t, rt)

		_, err := rt.RunPodSandbox(ctx, podConfig("p"), "")
		require.Equal(t, codes.AlreadyExists, status.Code(err))
		require.ErrorContains(t, err, "is reserved for "+fmt.Sprintf("%q", sandboxID))
		_, err = rt.RunPodSandbox(ctx, podConfig("q"), "gvisor")
		require.ErrorContains(t, err, `no runtime for "gvisor" is configured`)
		_, err = rt.RunPodSandbox(ctx, nil, "")
		require.Equal(t, codes.InvalidArgument, status.Code(err))

		response, err := rt.PodSandboxStatus(ctx, sandboxID, true)
		require.NoError(t, err)
		require.Equal(t, "10.88.0.2", response.Status.Network.Ip)
		require.Equal(t, runtimeapi.PodSandboxState_SANDBOX_READY, response.Status.State)
		require.Len(t, response.ContainersStatuses, 1)
		require.Contains(t, response.Info["info"], "uid-p")

		require.NoError(t, rt.StopPodSandbox(ctx, sandboxID))
		require.NoError(t, rt.StopPodSandbox(ctx, sandboxID))
		response, err = rt.PodSandboxStatus(ctx, sandboxID, false)
		require.NoError(t, err)
		require.Equal(t, runtimeapi.PodSandboxState_SANDBOX_NOTREADY, response.Status.State)
		require.NotNil(t, response.Status.Network)
		require.Empty(t, response.Status.Network.Ip)
		s := statusOf(t, rt, id)
		require.EqualValues(t, 137, s.ExitCode)
		_, err = rt.CreateContainer(ctx, sandboxID, containerConfig("p", "late"), podConfig("p"))
		require.Equal(t, codes.FailedPrecondition, status.Code(err))

		require.NoError(t, rt.RemovePodSandbox(ctx, sandboxID))
		require.NoError(t, rt.RemovePodSandbox(ctx, sandboxID))
		require.True(t, cri.IsNotFound(rt.StopPodSandbox(ctx, sandboxID)))
		_, err = rt.PodSandboxStatus(ctx, sandboxID, false)
		require.True(t, cri.IsNotFound(err))
		_, err = rt.ContainerStatus(ctx, id, false)
		require.True(t, cri.IsNotFound(err), "containers go with their sandbox")
		_, err = rt.RunPodSandbox(ctx, podConfig("p"), "kata")
		require.NoError(t, err, "the name is free again")
	})
}

func TestHostNetworkHasNoAddress(t *testing.T) {
	rt := start(t, fake.Config{})
	config := podConfig("p")
	config.Linux = &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
	}}
	id, err := rt.RunPodSandbox(t.Context(), config, "")
	require.NoError(t, err)
	response, err := rt.PodSandboxStatus(t.Context(), id, false)
	require.NoError(t, err)
	require.Empty(t, response.Status.Network.Ip)
	require.Equal(t, runtimeapi.NamespaceMode_NODE, response.Status.Linux.Namespaces.Options.Network)
}

// C38: a name stays reserved as long as its container exists, whatever became of
// the call that made it, and across the sandboxes of one pod.
func TestNameReservation(t *testing.T) {
	ctx := t.Context()
	rt := start(t, fake.Config{AnyImage: true})
	sandboxID, err := rt.RunPodSandbox(ctx, podConfig("p"), "")
	require.NoError(t, err)
	first, err := rt.CreateContainer(ctx, sandboxID, containerConfig("p", "c"), podConfig("p"))
	require.NoError(t, err)
	_, err = rt.CreateContainer(ctx, sandboxID, containerConfig("p", "c"), podConfig("p"))
	require.Equal(t, codes.AlreadyExists, status.Code(err))
	require.ErrorContains(t, err, "failed to reserve container name")

	successor := podConfig("p")
	successor.Metadata.Attempt = 1
	second, err := rt.RunPodSandbox(ctx, successor, "")
	require.NoError(t, err)
	_, err = rt.CreateContainer(ctx, second, containerConfig("p", "c"), successor)
	require.Equal(t, codes.AlreadyExists, status.Code(err))
	next := containerConfig("p", "c")
	next.Metadata.Attempt = 1
	_, err = rt.CreateContainer(ctx, second, next, successor)
	require.NoError(t, err)

	require.NoError(t, rt.RemoveContainer(ctx, first))
	_, err = rt.CreateContainer(ctx, second, containerConfig("p", "c"), successor)
	require.NoError(t, err)
}

func TestCrashSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(stubborn)})
		sandboxID, id := running(t, rt)
		require.NoError(t, rt.CrashSandbox(t.Context(), sandboxID))
		require.EqualValues(t, 137, statusOf(t, rt, id).ExitCode)
		response, err := rt.PodSandboxStatus(t.Context(), sandboxID, false)
		require.NoError(t, err)
		require.Equal(t, runtimeapi.PodSandboxState_SANDBOX_NOTREADY, response.Status.State)
		require.True(t, cri.IsNotFound(rt.CrashSandbox(t.Context(), "nope")))
	})
}

package fake_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

func TestServeWithoutAListener(t *testing.T) {
	require.EqualError(t, start(t, fake.Config{}).Serve(t.Context(), nil), "fake: Serve: listener is required")
}

func TestServeOnUnixSocket(t *testing.T) {
	rt := start(t, fake.Config{})
	path := filepath.Join(t.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- rt.Serve(ctx, listener) }()
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	version, err := runtimeapi.NewRuntimeServiceClient(conn).Version(t.Context(), &runtimeapi.VersionRequest{})
	require.NoError(t, err)
	require.Equal(t, "fake", version.RuntimeName)

	// A stream that is open does not keep Serve from ending.
	stream, err := runtimeapi.NewRuntimeServiceClient(conn).GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
	require.NoError(t, err)
	cancel()
	require.NoError(t, <-served)
	_, err = stream.Recv()
	require.Error(t, err)
	require.NoError(t, conn.Close())
	require.NoFileExists(t, path)
	require.Error(t, rt.Serve(t.Context(), listener), "a listener that is closed")
}

// TestServed shows that what callers see over gRPC is what they see in process.
func TestServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(stubborn), Exec: fake.ByCommand(map[string]fake.Program{
			"fail":  func(_ context.Context, p *fake.Process) int { fmt.Fprint(p.Stdout, "out"); return 4 },
			"sleep": fake.SleepUntilStopped,
		}, nil)})
		conn := dial(t, rt)
		client, images := runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)
		streamCtx, stopStream := context.WithCancel(ctx)
		stream, err := client.GetContainerEvents(streamCtx, &runtimeapi.GetEventsRequest{})
		require.NoError(t, err)
		synctest.Wait()

		pod, err := client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: podConfig("p")})
		require.NoError(t, err)
		created, err := client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: pod.PodSandboxId, Config: containerConfig("p", "c"), SandboxConfig: podConfig("p")})
		require.NoError(t, err)
		_, err = client.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: created.ContainerId})
		require.NoError(t, err)
		for range 4 {
			_, err := stream.Recv()
			require.NoError(t, err)
		}
		stopStream()
		_, err = stream.Recv()
		require.Equal(t, codes.Canceled, status.Code(err))

		exec, err := client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: created.ContainerId, Cmd: []string{"fail"}})
		require.NoError(t, err)
		require.EqualValues(t, 4, exec.ExitCode)
		require.Equal(t, "out", string(exec.Stdout))
		_, err = client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: created.ContainerId, Cmd: []string{"sleep"}, Timeout: 2})
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))

		began := time.Now()
		_, err = client.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: created.ContainerId, Timeout: 600})
		require.NoError(t, err)
		require.Equal(t, 10*time.Minute, time.Since(began))
		s, err := client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: created.ContainerId})
		require.NoError(t, err)
		require.EqualValues(t, 137, s.Status.ExitCode)
		_, err = client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: "nope"})
		require.True(t, cri.IsNotFound(err))
		_, err = client.StreamContainers(ctx, &runtimeapi.StreamContainersRequest{})
		require.NoError(t, err, "it says so on the first Recv")
		list, err := client.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
		require.NoError(t, err)
		require.Len(t, list.Containers, 1)
		image, err := images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: "busybox"}})
		require.NoError(t, err)
		require.NotNil(t, image.Image)
		_, err = client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod.PodSandboxId})
		require.NoError(t, err)
	})
}

package fake_test

import (
	"context"
	"errors"
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

	// Serve ends although a stream is open.
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

func TestIntercept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		boom := errors.New("boom")
		rt := start(t, fake.Config{AnyImage: true, Intercept: func(ctx context.Context, call string, request any) error {
			calls = append(calls, call)
			switch r := request.(type) {
			case *runtimeapi.StopContainerRequest:
				require.EqualValues(t, 2, r.Timeout)
				return boom
			case *runtimeapi.UpdatePodSandboxResourcesRequest:
				return status.Error(codes.Unimplemented, "not here")
			case *runtimeapi.ListContainersRequest:
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}})
		_, id := running(t, rt)
		require.ErrorIs(t, rt.StopContainer(t.Context(), id, 1500*time.Millisecond), boom)
		require.True(t, cri.IsUnimplemented(rt.UpdatePodSandboxResources(t.Context(), &runtimeapi.UpdatePodSandboxResourcesRequest{})))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := rt.ListContainers(ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		require.Equal(t, time.Minute, time.Since(began))
		_, err = rt.Version(ctx)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		require.Equal(t, []string{"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "UpdatePodSandboxResources", "ListContainers"}, calls)
	})
}

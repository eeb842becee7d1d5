package fake_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

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

package script_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
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
	"github.com/podwright/podwright/cri/fake/script"
)

// The same faults over the wire, in a bubble.
func TestOverGRPC(t *testing.T) {
	text := `
		2nd StopContainer of pod a: hang 30s, then Unknown "lost"
		3rd StopContainer of pod a: hang
		1st CreateContainer: do, then empty reply
		1st Version: empty reply
		1st ExecSync: exit 3 "no"
		2nd event: Unavailable "broken"`
	play(t, text, func(s *stage) {
		ctx := s.t.Context()
		client := runtimeapi.NewRuntimeServiceClient(s.serve())
		events, err := client.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
		require.NoError(t, err)
		synctest.Wait()
		sandbox, err := s.fake.RunPodSandbox(ctx, podConfig("prod", "a"), "")
		require.NoError(t, err)
		event, err := events.Recv()
		require.NoError(t, err)
		require.Equal(t, sandbox, event.GetContainerId())
		_, err = events.Recv()
		require.Equal(t, "broken", status.Convert(err).Message())

		version, err := client.Version(ctx, &runtimeapi.VersionRequest{})
		require.NoError(t, err)
		require.Empty(t, version.GetRuntimeName())
		made, err := client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, Config: containerConfig("app", 0), SandboxConfig: podConfig("prod", "a")})
		require.NoError(t, err)
		require.Empty(t, made.GetContainerId())
		list, err := client.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
		require.NoError(t, err)
		require.Len(t, list.GetContainers(), 1)
		id := list.GetContainers()[0].GetId()
		exec, err := client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"x"}})
		require.NoError(t, err)
		require.EqualValues(t, 3, exec.GetExitCode())
		require.Equal(t, "no", string(exec.GetStdout()))

		stop := func() error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := client.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id})
			return err
		}
		require.NoError(t, takes(t, 0, stop))
		require.Equal(t, codes.Unknown, status.Code(takes(t, 30*time.Second, stop)))
		require.Equal(t, codes.DeadlineExceeded, status.Code(takes(t, time.Minute, stop)))
	})
}

// A player does not hide which lists its runtime can stream, over a fake or over a
// client.
func TestStreamedListsOverGRPC(t *testing.T) {
	lacking := []string{"StreamContainers", "StreamImages"}
	playOn(t, "", fake.Config{AnyImage: true, Unimplemented: lacking}, script.Config{}, func(s *stage) {
		t := s.t
		for _, service := range []cri.RuntimeService{s.fake, s.Player} {
			conn := connect(t, serve(t, service, service.(cri.ImageService)))
			runtime, images := runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)
			containers, err := runtime.StreamContainers(t.Context(), &runtimeapi.StreamContainersRequest{})
			require.NoError(t, err)
			_, err = containers.Recv()
			require.True(t, cri.IsUnimplemented(err), "%T: %v", service, err)
			all, err := images.StreamImages(t.Context(), &runtimeapi.StreamImagesRequest{})
			require.NoError(t, err)
			_, err = all.Recv()
			require.True(t, cri.IsUnimplemented(err), "%T: %v", service, err)
			sandboxes, err := runtime.StreamPodSandboxes(t.Context(), &runtimeapi.StreamPodSandboxesRequest{})
			require.NoError(t, err)
			_, err = sandboxes.Recv()
			require.ErrorIs(t, err, io.EOF, "%T", service)
		}
	})
}

// A list that no message holds gets through a player whose runtime is a client.
func TestLargeListThroughAClient(t *testing.T) {
	play(t, "1st ListContainers: Unavailable", func(s *stage) {
		t := s.t
		sandbox := s.pod("a")
		for i := range 17 {
			config := containerConfig("app", uint32(i))
			config.Annotations = map[string]string{"big": strings.Repeat("x", 1<<20)}
			_, err := s.fake.CreateContainer(t.Context(), sandbox, config, podConfig("prod", "a"))
			require.NoError(t, err)
		}
		runtime, images := clients(t, serve(t, s.fake, s.fake))
		player, err := script.New(script.Config{Script: s.Script(), Runtime: runtime, Images: images})
		require.NoError(t, err)
		outer, _ := clients(t, serve(t, player, player))
		_, err = outer.ListContainers(t.Context(), nil)
		require.Equal(t, codes.Unavailable, status.Code(err), "a streamed list is played as the plain one")
		for _, lister := range []cri.RuntimeService{player, outer} {
			list, err := lister.ListContainers(t.Context(), nil)
			require.NoError(t, err)
			require.Len(t, list, 17)
		}
	})
}

// clients are those of this project, that stream lists.
func clients(t *testing.T, dial func(context.Context, string) (net.Conn, error)) (cri.RuntimeService, cri.ImageService) {
	t.Helper()
	cfg := cri.ClientConfig{Endpoint: "/memory", Dial: dial, StreamLists: true}
	runtime, err := cri.DialRuntime(t.Context(), cfg)
	require.NoError(t, err)
	images, err := cri.DialImages(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(runtime.Close(), images.Close())) })
	return runtime, images
}

// serve serves the player in memory and connects to it.
func (s *stage) serve() *grpc.ClientConn {
	s.t.Helper()
	return connect(s.t, serve(s.t, s.Player, s.Player))
}

// serve serves both services in memory and returns what dials them.
func serve(t *testing.T, runtime cri.RuntimeService, images cri.ImageService) func(context.Context, string) (net.Conn, error) {
	t.Helper()
	listener := fake.Listen()
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	fake.Register(server, runtime, images)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	return func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
}

func connect(t *testing.T, dial func(context.Context, string) (net.Conn, error)) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///memory",
		grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

package fake_test

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

// Lists that exceed one message arrive as streams.
func TestStreamedLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true})
		runtime, images := client(t, rt)
		running(t, rt)
		ctx := t.Context()
		for i := range 17 {
			config := containerConfig("p", fmt.Sprint("c", i))
			config.Annotations = map[string]string{"big": strings.Repeat("x", 1<<20)}
			_, err := rt.CreateContainer(ctx, sandbox(t, rt, fmt.Sprint("p", i)), config, podConfig("p"))
			require.NoError(t, err)
		}
		var counts []int
		note := func(count int, err error) { require.NoError(t, err); counts = append(counts, count) }
		note(length(runtime.ListContainers(ctx, nil)))
		note(length(runtime.ListContainerStats(ctx, nil)))
		note(length(runtime.ListPodSandbox(ctx, nil)))
		note(length(runtime.ListPodSandboxStats(ctx, nil)))
		note(length(runtime.ListPodSandboxMetrics(ctx)))
		note(length(images.ListImages(ctx, nil)))
		require.Equal(t, []int{18, 18, 18, 18, 18, 1}, counts)
	})
}

func length[T any](list []T, err error) (int, error) { return len(list), err }

// Calls in Config.Unimplemented fail with Unimplemented, in process and over gRPC, and all other
// calls work. Sessions need Config.Streams.
func TestUnimplemented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{
			AnyImage: true,
			Unimplemented: []string{
				"GetContainerEvents", "RuntimeConfig", "UpdatePodSandboxResources", "ListPodSandboxStats", "PullImage", "StreamImages",
				"CheckpointContainer", "ListMetricDescriptors", "ListPodSandboxMetrics",
			},
			Intercept: func(context.Context, string, any) error { return nil },
		})
		ctx := t.Context()
		streamed, err := runtimeapi.NewImageServiceClient(dial(t, rt)).StreamImages(ctx, &runtimeapi.StreamImagesRequest{})
		require.NoError(t, err)
		_, err = streamed.Recv()
		require.True(t, cri.IsUnimplemented(err), "%v", err)
		runtime, images := client(t, rt)
		second := func(_ any, err error) error { return err }
		for _, on := range []struct {
			cri.RuntimeService
			cri.ImageService
		}{{rt, rt}, {runtime, images}} {
			for i, err := range []error{
				on.GetContainerEvents(ctx, func(*runtimeapi.ContainerEventResponse) {}),
				on.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{}),
				on.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{}),
				second(on.RuntimeConfig(ctx)),
				second(on.ListPodSandboxStats(ctx, nil)),
				second(on.PullImage(ctx, imageSpec("a"), nil, nil)),
				second(on.ListMetricDescriptors(ctx)),
				second(on.ListPodSandboxMetrics(ctx)),
				second(on.Exec(ctx, &runtimeapi.ExecRequest{})),
				second(on.Attach(ctx, &runtimeapi.AttachRequest{})),
				second(on.PortForward(ctx, &runtimeapi.PortForwardRequest{})),
			} {
				require.True(t, cri.IsUnimplemented(err), "%d: %v", i, err)
			}
			require.NoError(t, second(on.ListContainerStats(ctx, nil)))
		}
	})
	_, err := fake.New(fake.Config{Unimplemented: []string{"ListContainers", "ListContainer"}})
	require.ErrorContains(t, err, `"ListContainer"`)
}

func TestCheckpoint(t *testing.T) {
	location := filepath.Join(t.TempDir(), "checkpoint.tar")
	try := func(rt *fake.Runtime, id, location string) error {
		return rt.CheckpointContainer(t.Context(), &runtimeapi.CheckpointContainerRequest{ContainerId: id, Location: location})
	}
	without := start(t, fake.Config{AnyImage: true})
	_, id := running(t, without)
	require.ErrorContains(t, try(without, id, location), "CRIU binary not found")

	rt := start(t, fake.Config{AnyImage: true, Checkpoints: true})
	_, id = running(t, rt)
	require.NoError(t, try(rt, id, location))
	require.Equal(t, "RUNNING 0 ", brief(statusOf(t, rt, id)), "it runs on")
	file, err := os.Open(location)
	require.NoError(t, err)
	defer file.Close()
	var names []string
	archive := tar.NewReader(file)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		names = append(names, header.Name)
		if header.Name == "config.dump" {
			require.Contains(t, string(content), id)
		}
	}
	require.Equal(t, []string{"config.dump", "spec.dump", "status.dump"}, names)

	require.Equal(t, codes.InvalidArgument, status.Code(try(rt, id, "relative.tar")))
	require.Equal(t, codes.Unknown, status.Code(try(rt, id, filepath.Join(location, "below"))))
	require.True(t, cri.IsNotFound(try(rt, "none", location)))
	require.NoError(t, rt.StopContainer(t.Context(), id, 0))
	require.Equal(t, codes.FailedPrecondition, status.Code(try(rt, id, location)))
}

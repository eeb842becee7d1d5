package fake_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

// Lists beyond what one message holds come through as streams, and fall back to
// plain lists where there are none.
func TestStreamedLists(t *testing.T) {
	for _, lacking := range [][]string{nil, {"StreamContainers", "StreamPodSandboxes", "StreamImages", "StreamContainerStats", "StreamPodSandboxStats", "StreamPodSandboxMetrics"}} {
		bubble(t, fmt.Sprint(len(lacking), " missing"), func(t *testing.T) {
			rt := start(t, fake.Config{AnyImage: true, Unimplemented: lacking})
			sandboxID, err := rt.RunPodSandbox(t.Context(), podConfig("p"), "")
			require.NoError(t, err)
			runtime, images := client(t, rt)
			read := func() (counts [6]int, large error) {
				containers, large := runtime.ListContainers(t.Context(), nil)
				stats, err := runtime.ListContainerStats(t.Context(), nil)
				require.True(t, err == nil || errors.Is(err, cri.ErrReplyTooLarge), "%v", err)
				sandboxes, err := runtime.ListPodSandbox(t.Context(), nil)
				require.NoError(t, err)
				pods, err := runtime.ListPodSandboxStats(t.Context(), nil)
				require.True(t, err == nil || errors.Is(err, cri.ErrReplyTooLarge), "%v", err)
				metrics, err := runtime.ListPodSandboxMetrics(t.Context())
				require.NoError(t, err)
				list, err := images.ListImages(t.Context(), nil)
				require.NoError(t, err)
				return [6]int{len(containers), len(stats), len(sandboxes), len(pods), len(metrics), len(list)}, large
			}
			add := func(i int) {
				config := containerConfig("p", fmt.Sprint("c", i))
				config.Annotations = map[string]string{"big": strings.Repeat("x", 1<<20)}
				id, err := rt.CreateContainer(t.Context(), sandboxID, config, podConfig("p"))
				require.NoError(t, err)
				require.NoError(t, rt.StartContainer(t.Context(), id))
			}
			add(0)
			counts, err := read()
			require.NoError(t, err)
			require.Equal(t, [6]int{1, 1, 1, 1, 1, 1}, counts)
			for i := range 17 {
				add(i + 1)
			}
			counts, err = read()
			if lacking == nil {
				require.NoError(t, err)
				// The statistics of one pod are one message.
				require.Equal(t, [6]int{18, 18, 1, 0, 1, 1}, counts)
				return
			}
			require.ErrorIs(t, err, cri.ErrReplyTooLarge)
		})
	}
}

// The calls that Config takes away are gone, in process and over gRPC, and the
// others are not.
func TestUnimplemented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{
			AnyImage:      true,
			Unimplemented: []string{"GetContainerEvents", "RuntimeConfig", "UpdatePodSandboxResources", "ListPodSandboxStats", "ImageFsInfo", "StreamImages"},
			Intercept:     func(context.Context, string, any) error { return nil },
		})
		stub := runtimeapi.NewRuntimeServiceClient(dial(t, rt))
		images := runtimeapi.NewImageServiceClient(dial(t, rt))
		ctx := t.Context()
		events, err := stub.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
		require.NoError(t, err)
		_, eventsErr := events.Recv()
		streamed, err := images.StreamImages(ctx, &runtimeapi.StreamImagesRequest{})
		require.NoError(t, err)
		_, streamErr := streamed.Recv()
		_, inProcess := rt.ListPodSandboxStats(ctx, nil)
		_, overGRPC := stub.ListPodSandboxStats(ctx, &runtimeapi.ListPodSandboxStatsRequest{})
		_, update := stub.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{})
		_, fs := images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
		_, config := stub.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
		for _, err := range []error{eventsErr, streamErr, inProcess, overGRPC, update, fs, config} {
			require.True(t, cri.IsUnimplemented(err), "%v", err)
		}
		_, err = stub.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
		require.NoError(t, err)
	})
	_, err := fake.New(fake.Config{Unimplemented: []string{"ListContainers", "ListContainer"}})
	require.ErrorContains(t, err, `"ListContainer"`)
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true})
		sandboxID, id := running(t, rt)
		stopped, err := rt.RunPodSandbox(t.Context(), podConfig("q"), "")
		require.NoError(t, err)
		require.NoError(t, rt.StopPodSandbox(t.Context(), stopped))
		time.Sleep(1000 * time.Second)
		descriptors, err := rt.ListMetricDescriptors(t.Context())
		require.NoError(t, err)
		described := map[string]int{}
		for _, d := range descriptors {
			require.NotEmpty(t, d.Help)
			described[d.Name] = len(d.LabelKeys)
		}
		pods, err := rt.ListPodSandboxMetrics(t.Context())
		require.NoError(t, err)
		require.Len(t, pods, 1, "those that are ready")
		require.Equal(t, sandboxID, pods[0].PodSandboxId)
		require.Len(t, pods[0].ContainerMetrics, 1)
		require.Equal(t, id, pods[0].ContainerMetrics[0].ContainerId)
		values := map[string]uint64{}
		for _, m := range pods[0].ContainerMetrics[0].Metrics {
			require.Len(t, m.LabelValues, described[m.Name], m.Name)
			require.Equal(t, time.Now().UnixNano(), m.Timestamp)
			values[m.Name] = m.Value.Value
		}
		require.Len(t, values, len(described))
		stats, err := rt.ContainerStats(t.Context(), id)
		require.NoError(t, err)
		require.EqualValues(t, 10, values["container_cpu_usage_seconds_total"])
		require.Equal(t, stats.Cpu.UsageCoreNanoSeconds.Value/1e9, values["container_cpu_usage_seconds_total"])
		require.Equal(t, stats.Memory.WorkingSetBytes.Value, values["container_memory_working_set_bytes"])
		require.EqualValues(t, time.Now().Add(-1000*time.Second).Unix(), values["container_start_time_seconds"])

		require.NoError(t, rt.StopContainer(t.Context(), id, 0))
		pods, err = rt.ListPodSandboxMetrics(t.Context())
		require.NoError(t, err)
		require.Empty(t, pods[0].ContainerMetrics)
	})
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

func TestOldRuntime(t *testing.T) {
	ctx := t.Context()
	rt := start(t, fake.Config{
		Unimplemented: []string{
			"GetContainerEvents", "RuntimeConfig", "CheckpointContainer", "ListMetricDescriptors", "ListPodSandboxMetrics",
		},
	})
	require.True(t, cri.IsUnimplemented(rt.GetContainerEvents(ctx, nil)))
	_, err := rt.RuntimeConfig(ctx)
	require.True(t, cri.IsUnimplemented(err))
	_, err = rt.Exec(ctx, &runtimeapi.ExecRequest{})
	require.True(t, cri.IsUnimplemented(err))
	_, err = rt.Attach(ctx, &runtimeapi.AttachRequest{})
	require.True(t, cri.IsUnimplemented(err))
	_, err = rt.PortForward(ctx, &runtimeapi.PortForwardRequest{})
	require.True(t, cri.IsUnimplemented(err))
	require.True(t, cri.IsUnimplemented(rt.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{})))
	_, err = rt.ListMetricDescriptors(ctx)
	require.True(t, cri.IsUnimplemented(err))
	_, err = rt.ListPodSandboxMetrics(ctx)
	require.True(t, cri.IsUnimplemented(err))
}

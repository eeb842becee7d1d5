package cri

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// bulk is a list of n containers of about a mebibyte each.
func bulk(n int) []*runtimeapi.Container {
	var out []*runtimeapi.Container
	for i := range n {
		out = append(out, &runtimeapi.Container{Id: fmt.Sprint(i), Annotations: map[string]string{"a": strings.Repeat("x", 1<<20)}})
	}
	return out
}

// C39: a list that is too large is an error that says so, and does not harm
// calls about single containers.
func TestTooLargeList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, runtime, _ := bothClients(t)
		s.reply("ListContainers", &runtimeapi.ListContainersResponse{Containers: bulk(15)})
		items, err := runtime.ListContainers(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, items, 15)

		s.reply("ListContainers", &runtimeapi.ListContainersResponse{Containers: bulk(17)})
		items, err = runtime.ListContainers(t.Context(), nil)
		require.Nil(t, items)
		requireCallError(t, err, "ListContainers")
		require.ErrorIs(t, err, ErrReplyTooLarge)
		require.ErrorContains(t, err, "reply exceeds 16 MiB")
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		require.NoError(t, runtime.RemoveContainer(t.Context(), "c"))
	})
}

func TestOtherShortagesAreNotTooLargeReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, runtime, _ := bothClients(t)
		s.fail("StartContainer", status.Error(codes.ResourceExhausted, "no space left on device"))
		require.NotErrorIs(t, runtime.StartContainer(t.Context(), "c"), ErrReplyTooLarge)
	})
}

// C39: the streaming form of the list gets through.
func TestStreamedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.containers = func(stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
			for _, c := range bulk(17) {
				if err := stream.Send(&runtimeapi.StreamContainersResponse{Containers: []*runtimeapi.Container{c}}); err != nil {
					return err
				}
			}
			return nil
		}
		cfg := s.inMemory(t)
		cfg.StreamLists = true
		client := dialRuntime(t, cfg)
		items, err := client.ListContainers(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, items, 17)
		require.Equal(t, "16", items[16].Id)
		require.Empty(t, s.calls("ListContainers"))
		require.Equal(t, DefaultRequestTimeout, s.calls("StreamContainers")[0].left)
	})
}

func TestBrokenStreamGivesNoHalfList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.containers = func(stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
			if err := stream.Send(&runtimeapi.StreamContainersResponse{Containers: bulk(1)}); err != nil {
				return err
			}
			return status.Error(codes.Internal, "broken")
		}
		cfg := s.inMemory(t)
		cfg.StreamLists = true
		items, err := dialRuntime(t, cfg).ListContainers(t.Context(), nil)
		require.Nil(t, items)
		requireCallError(t, err, "ListContainers")
		require.Equal(t, codes.Internal, status.Code(err))
		require.Empty(t, s.calls("ListContainers"), "no second try by the other form")
	})
}

// A runtime without the streaming forms is asked for each once.
func TestStreamedListsFallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		s.reply("ListPodSandbox", &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{{Id: "1"}}})
		s.reply("ListContainers", &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{Id: "1"}}})
		s.reply("ListContainerStats", &runtimeapi.ListContainerStatsResponse{Stats: []*runtimeapi.ContainerStats{{}}})
		s.reply("ListPodSandboxStats", &runtimeapi.ListPodSandboxStatsResponse{Stats: []*runtimeapi.PodSandboxStats{{}}})
		s.reply("ListPodSandboxMetrics", &runtimeapi.ListPodSandboxMetricsResponse{PodMetrics: []*runtimeapi.PodSandboxMetrics{{}}})
		s.reply("ListImages", &runtimeapi.ListImagesResponse{Images: []*runtimeapi.Image{{Id: "1"}}})
		cfg := s.inMemory(t)
		cfg.StreamLists = true
		var failed []CallInfo
		cfg.Observer.CallDone = func(i CallInfo) {
			if i.Err != nil {
				failed = append(failed, i)
			}
		}
		runtime, images := dialRuntime(t, cfg), dialImages(t, cfg)
		for _, c := range []struct {
			streaming, plain string
			list             func(context.Context) (int, error)
		}{
			{"StreamPodSandboxes", "ListPodSandbox", func(ctx context.Context) (int, error) {
				items, err := runtime.ListPodSandbox(ctx, nil)
				return len(items), err
			}},
			{"StreamContainers", "ListContainers", func(ctx context.Context) (int, error) {
				items, err := runtime.ListContainers(ctx, nil)
				return len(items), err
			}},
			{"StreamContainerStats", "ListContainerStats", func(ctx context.Context) (int, error) {
				items, err := runtime.ListContainerStats(ctx, nil)
				return len(items), err
			}},
			{"StreamPodSandboxStats", "ListPodSandboxStats", func(ctx context.Context) (int, error) {
				items, err := runtime.ListPodSandboxStats(ctx, nil)
				return len(items), err
			}},
			{"StreamPodSandboxMetrics", "ListPodSandboxMetrics", func(ctx context.Context) (int, error) {
				items, err := runtime.ListPodSandboxMetrics(ctx)
				return len(items), err
			}},
			{"StreamImages", "ListImages", func(ctx context.Context) (int, error) {
				items, err := images.ListImages(ctx, nil)
				return len(items), err
			}},
		} {
			for range 3 {
				n, err := c.list(t.Context())
				require.NoError(t, err, c.plain)
				require.Equal(t, 1, n, c.plain)
			}
			require.Len(t, s.calls(c.streaming), 1, c.streaming)
			require.Len(t, s.calls(c.plain), 3, c.plain)
		}
		require.Empty(t, failed, "a fallback is no failure")
	})
}

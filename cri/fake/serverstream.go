package fake

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// partSize is the approximate size of a message of a streamed list.
const partSize = 1 << 20

// incompleteService is a service that reports missing calls, as Runtime does. The streaming lists exist only
// in the server: the service behind it gets plain lists.
type incompleteService interface{ Lacks(call string) error }

// streamList sends a list in parts, each made by wrap.
func streamList[Item proto.Message, Filter, Part any](service any, call string, list func(context.Context, Filter) ([]Item, error), filter Filter, out grpc.ServerStreamingServer[Part], wrap func([]Item) *Part) error {
	if s, ok := service.(incompleteService); ok {
		if err := s.Lacks(call); err != nil {
			return err
		}
	}
	items, err := list(out.Context(), filter)
	if _, err := reply(&struct{}{}, err); err != nil {
		return err
	}
	for len(items) > 0 {
		n := 1
		for size := proto.Size(items[0]); n < len(items); n++ {
			if size += proto.Size(items[n]); size > partSize {
				break
			}
		}
		if err := out.Send(wrap(items[:n])); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

func (s *runtimeServer) StreamPodSandboxes(r *runtimeapi.StreamPodSandboxesRequest, out grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxesResponse]) error {
	return streamList(s.runtime, "StreamPodSandboxes", s.runtime.ListPodSandbox, r.GetFilter(), out, func(items []*runtimeapi.PodSandbox) *runtimeapi.StreamPodSandboxesResponse {
		return &runtimeapi.StreamPodSandboxesResponse{PodSandboxes: items}
	})
}

func (s *runtimeServer) StreamContainers(r *runtimeapi.StreamContainersRequest, out grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	return streamList(s.runtime, "StreamContainers", s.runtime.ListContainers, r.GetFilter(), out, func(items []*runtimeapi.Container) *runtimeapi.StreamContainersResponse {
		return &runtimeapi.StreamContainersResponse{Containers: items}
	})
}

func (s *runtimeServer) StreamContainerStats(r *runtimeapi.StreamContainerStatsRequest, out grpc.ServerStreamingServer[runtimeapi.StreamContainerStatsResponse]) error {
	return streamList(s.runtime, "StreamContainerStats", s.runtime.ListContainerStats, r.GetFilter(), out, func(items []*runtimeapi.ContainerStats) *runtimeapi.StreamContainerStatsResponse {
		return &runtimeapi.StreamContainerStatsResponse{ContainerStats: items}
	})
}

func (s *runtimeServer) StreamPodSandboxStats(r *runtimeapi.StreamPodSandboxStatsRequest, out grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxStatsResponse]) error {
	return streamList(s.runtime, "StreamPodSandboxStats", s.runtime.ListPodSandboxStats, r.GetFilter(), out, func(items []*runtimeapi.PodSandboxStats) *runtimeapi.StreamPodSandboxStatsResponse {
		return &runtimeapi.StreamPodSandboxStatsResponse{PodSandboxStats: items}
	})
}

func (s *runtimeServer) StreamPodSandboxMetrics(r *runtimeapi.StreamPodSandboxMetricsRequest, out grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxMetricsResponse]) error {
	list := func(ctx context.Context, _ any) ([]*runtimeapi.PodSandboxMetrics, error) {
		return s.runtime.ListPodSandboxMetrics(ctx)
	}
	return streamList(s.runtime, "StreamPodSandboxMetrics", list, any(r), out, func(items []*runtimeapi.PodSandboxMetrics) *runtimeapi.StreamPodSandboxMetricsResponse {
		return &runtimeapi.StreamPodSandboxMetricsResponse{PodSandboxMetrics: items}
	})
}

func (s *imageServer) StreamImages(r *runtimeapi.StreamImagesRequest, out grpc.ServerStreamingServer[runtimeapi.StreamImagesResponse]) error {
	return streamList(s.images, "StreamImages", s.images.ListImages, r.GetFilter(), out, func(items []*runtimeapi.Image) *runtimeapi.StreamImagesResponse {
		return &runtimeapi.StreamImagesResponse{Images: items}
	})
}

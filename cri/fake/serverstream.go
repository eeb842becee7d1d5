package fake

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// partSize is about how large the messages are that a streamed list comes in.
const partSize = 1 << 20

// lacker is a service that knows which calls it does not have, as Runtime does.
// The streaming lists are calls of the server alone: the service behind it sees
// the plain one.
type lacker interface{ Lacks(call string) error }

// streamList sends a list in parts, each made by wrap.
func streamList[Item proto.Message, Part any](service any, call string, list func() ([]Item, error), wrap func([]Item) *Part, out grpc.ServerStreamingServer[Part]) error {
	if s, ok := service.(lacker); ok {
		if err := s.Lacks(call); err != nil {
			return err
		}
	}
	items, err := list()
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
	return streamList(s.runtime, "StreamPodSandboxes", func() ([]*runtimeapi.PodSandbox, error) {
		return s.runtime.ListPodSandbox(out.Context(), r.GetFilter())
	}, func(items []*runtimeapi.PodSandbox) *runtimeapi.StreamPodSandboxesResponse {
		return &runtimeapi.StreamPodSandboxesResponse{PodSandboxes: items}
	}, out)
}

func (s *runtimeServer) StreamContainers(r *runtimeapi.StreamContainersRequest, out grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	return streamList(s.runtime, "StreamContainers", func() ([]*runtimeapi.Container, error) {
		return s.runtime.ListContainers(out.Context(), r.GetFilter())
	}, func(items []*runtimeapi.Container) *runtimeapi.StreamContainersResponse {
		return &runtimeapi.StreamContainersResponse{Containers: items}
	}, out)
}

func (s *runtimeServer) StreamContainerStats(r *runtimeapi.StreamContainerStatsRequest, out grpc.ServerStreamingServer[runtimeapi.StreamContainerStatsResponse]) error {
	return streamList(s.runtime, "StreamContainerStats", func() ([]*runtimeapi.ContainerStats, error) {
		return s.runtime.ListContainerStats(out.Context(), r.GetFilter())
	}, func(items []*runtimeapi.ContainerStats) *runtimeapi.StreamContainerStatsResponse {
		return &runtimeapi.StreamContainerStatsResponse{ContainerStats: items}
	}, out)
}

func (s *runtimeServer) StreamPodSandboxStats(r *runtimeapi.StreamPodSandboxStatsRequest, out grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxStatsResponse]) error {
	return streamList(s.runtime, "StreamPodSandboxStats", func() ([]*runtimeapi.PodSandboxStats, error) {
		return s.runtime.ListPodSandboxStats(out.Context(), r.GetFilter())
	}, func(items []*runtimeapi.PodSandboxStats) *runtimeapi.StreamPodSandboxStatsResponse {
		return &runtimeapi.StreamPodSandboxStatsResponse{PodSandboxStats: items}
	}, out)
}

func (s *runtimeServer) StreamPodSandboxMetrics(_ *runtimeapi.StreamPodSandboxMetricsRequest, out grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxMetricsResponse]) error {
	return streamList(s.runtime, "StreamPodSandboxMetrics", func() ([]*runtimeapi.PodSandboxMetrics, error) {
		return s.runtime.ListPodSandboxMetrics(out.Context())
	}, func(items []*runtimeapi.PodSandboxMetrics) *runtimeapi.StreamPodSandboxMetricsResponse {
		return &runtimeapi.StreamPodSandboxMetricsResponse{PodSandboxMetrics: items}
	}, out)
}

func (s *imageServer) StreamImages(r *runtimeapi.StreamImagesRequest, out grpc.ServerStreamingServer[runtimeapi.StreamImagesResponse]) error {
	return streamList(s.images, "StreamImages", func() ([]*runtimeapi.Image, error) {
		return s.images.ListImages(out.Context(), r.GetFilter())
	}, func(items []*runtimeapi.Image) *runtimeapi.StreamImagesResponse {
		return &runtimeapi.StreamImagesResponse{Images: items}
	}, out)
}

package fake

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
)

func (s *runtimeServer) Exec(ctx context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return reply(s.runtime.Exec(ctx, r))
}

func (s *runtimeServer) Attach(ctx context.Context, r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return reply(s.runtime.Attach(ctx, r))
}

func (s *runtimeServer) PortForward(ctx context.Context, r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return reply(s.runtime.PortForward(ctx, r))
}

func (s *runtimeServer) ContainerStats(ctx context.Context, r *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	stats, err := s.runtime.ContainerStats(ctx, r.GetContainerId())
	return reply(&runtimeapi.ContainerStatsResponse{Stats: stats}, err)
}

func (s *runtimeServer) ListContainerStats(ctx context.Context, r *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	stats, err := s.runtime.ListContainerStats(ctx, r.GetFilter())
	return reply(&runtimeapi.ListContainerStatsResponse{Stats: stats}, err)
}

func (s *runtimeServer) PodSandboxStats(ctx context.Context, r *runtimeapi.PodSandboxStatsRequest) (*runtimeapi.PodSandboxStatsResponse, error) {
	stats, err := s.runtime.PodSandboxStats(ctx, r.GetPodSandboxId())
	return reply(&runtimeapi.PodSandboxStatsResponse{Stats: stats}, err)
}

func (s *runtimeServer) ListPodSandboxStats(ctx context.Context, r *runtimeapi.ListPodSandboxStatsRequest) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	stats, err := s.runtime.ListPodSandboxStats(ctx, r.GetFilter())
	return reply(&runtimeapi.ListPodSandboxStatsResponse{Stats: stats}, err)
}

func (s *runtimeServer) ListMetricDescriptors(ctx context.Context, _ *runtimeapi.ListMetricDescriptorsRequest) (*runtimeapi.ListMetricDescriptorsResponse, error) {
	descriptors, err := s.runtime.ListMetricDescriptors(ctx)
	return reply(&runtimeapi.ListMetricDescriptorsResponse{Descriptors: descriptors}, err)
}

func (s *runtimeServer) ListPodSandboxMetrics(ctx context.Context, _ *runtimeapi.ListPodSandboxMetricsRequest) (*runtimeapi.ListPodSandboxMetricsResponse, error) {
	metrics, err := s.runtime.ListPodSandboxMetrics(ctx)
	return reply(&runtimeapi.ListPodSandboxMetricsResponse{PodMetrics: metrics}, err)
}

func (s *runtimeServer) UpdateRuntimeConfig(ctx context.Context, r *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	return reply(&runtimeapi.UpdateRuntimeConfigResponse{}, s.runtime.UpdateRuntimeConfig(ctx, r.GetRuntimeConfig()))
}

func (s *runtimeServer) Status(ctx context.Context, r *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return reply(s.runtime.Status(ctx, r.GetVerbose()))
}

func (s *runtimeServer) RuntimeConfig(ctx context.Context, _ *runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	return reply(s.runtime.RuntimeConfig(ctx))
}

func (s *runtimeServer) CheckpointContainer(ctx context.Context, r *runtimeapi.CheckpointContainerRequest) (*runtimeapi.CheckpointContainerResponse, error) {
	return reply(&runtimeapi.CheckpointContainerResponse{}, s.runtime.CheckpointContainer(ctx, r))
}

type imageServer struct {
	runtimeapi.UnimplementedImageServiceServer
	images cri.ImageService
}

func (s *imageServer) ListImages(ctx context.Context, r *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	images, err := s.images.ListImages(ctx, r.GetFilter())
	return reply(&runtimeapi.ListImagesResponse{Images: images}, err)
}

func (s *imageServer) ImageStatus(ctx context.Context, r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	return reply(s.images.ImageStatus(ctx, r.GetImage(), r.GetVerbose()))
}

func (s *imageServer) PullImage(ctx context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	ref, err := s.images.PullImage(ctx, r.GetImage(), r.GetAuth(), r.GetSandboxConfig())
	return reply(&runtimeapi.PullImageResponse{ImageRef: ref}, err)
}

func (s *imageServer) RemoveImage(ctx context.Context, r *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	return reply(&runtimeapi.RemoveImageResponse{}, s.images.RemoveImage(ctx, r.GetImage()))
}

func (s *imageServer) ImageFsInfo(ctx context.Context, _ *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return reply(s.images.ImageFsInfo(ctx))
}

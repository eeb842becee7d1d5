package script

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListImages implements cri.ImageService.
func (s *services) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	return through(ctx, s, "ListImages", about{}, func(ctx context.Context) ([]*runtimeapi.Image, error) {
		return s.images.ListImages(ctx, filter)
	})
}

// ImageStatus implements cri.ImageService.
func (s *services) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	return through(ctx, s, "ImageStatus", about{image: imageName(image)}, func(ctx context.Context) (*runtimeapi.ImageStatusResponse, error) {
		return s.images.ImageStatus(ctx, image, verbose)
	})
}

// ImageFsInfo implements cri.ImageService.
func (s *services) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return through(ctx, s, "ImageFsInfo", about{}, func(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
		return s.images.ImageFsInfo(ctx)
	})
}

// PullImage implements cri.ImageService.
func (s *services) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	return through(ctx, s, "PullImage", about{image: imageName(image), pod: sandboxConfig}, func(ctx context.Context) (string, error) {
		return s.images.PullImage(ctx, image, auth, sandboxConfig)
	})
}

// RemoveImage implements cri.ImageService.
func (s *services) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	return throughNothing(ctx, s, "RemoveImage", about{image: imageName(image)}, func(ctx context.Context) error {
		return s.images.RemoveImage(ctx, image)
	})
}

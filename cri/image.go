package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ImageClient is a client for the ImageService of a runtime behind a socket. It reconnects by
// itself. Its calls return *CallError. It is safe for concurrent use.
type ImageClient struct {
	link *link
	api  runtimeapi.ImageServiceClient
}

var _ ImageService = (*ImageClient)(nil)

// DialImages connects to the ImageService at cfg.Endpoint, usually the runtime's, and calls
// ImageFsInfo as a check. It fails at once without a listener, and within RequestTimeout if the
// listener has no CRI ImageService. The caller closes the client.
func DialImages(ctx context.Context, cfg ClientConfig) (*ImageClient, error) {
	l, err := newLink("image", cfg)
	if err != nil {
		return nil, err
	}
	c := &ImageClient{link: l, api: runtimeapi.NewImageServiceClient(l.conn)}
	if _, err := c.ImageFsInfo(ctx); err != nil {
		return nil, l.refuse(err)
	}
	return c, nil
}

// Close ends the connection and all its calls, and waits until they have returned.
func (c *ImageClient) Close() error { return c.link.close() }

// ListImages implements ImageReader.
func (c *ImageClient) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	return list(ctx, c.link.call("ListImages", "list_images"),
		func(ctx context.Context) ([]*runtimeapi.Image, error) {
			stream, err := c.api.StreamImages(ctx, &runtimeapi.StreamImagesRequest{Filter: filter})
			return collect(stream, err, (*runtimeapi.StreamImagesResponse).GetImages)
		},
		func(ctx context.Context) ([]*runtimeapi.Image, error) {
			reply, err := c.api.ListImages(ctx, &runtimeapi.ListImagesRequest{Filter: filter})
			return reply.GetImages(), err
		})
}

// ImageStatus implements ImageReader.
func (c *ImageClient) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	return unary(ctx, c.link.call("ImageStatus", "image_status"), c.api.ImageStatus,
		&runtimeapi.ImageStatusRequest{Image: image, Verbose: verbose})
}

// ImageFsInfo implements ImageReader.
func (c *ImageClient) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return unary(ctx, c.link.call("ImageFsInfo", "image_fs_info"), c.api.ImageFsInfo, &runtimeapi.ImageFsInfoRequest{})
}

// PullImage implements ImageChanger. CallError.Message begins with the runtime's name for the
// failure, such as RegistryUnavailable, if it has one.
func (c *ImageClient) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	reply, err := unary(ctx, c.link.call("PullImage", "pull_image").within(0), c.api.PullImage,
		&runtimeapi.PullImageRequest{Image: image, Auth: auth, SandboxConfig: sandboxConfig})
	return reply.GetImageRef(), err
}

// RemoveImage implements ImageChanger.
func (c *ImageClient) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	_, err := unary(ctx, c.link.call("RemoveImage", "remove_image"), c.api.RemoveImage, &runtimeapi.RemoveImageRequest{Image: image})
	if IsNotFound(err) {
		return nil
	}
	return err
}

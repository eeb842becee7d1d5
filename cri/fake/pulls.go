package fake

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PullImage pulls an image through Config.Pull and returns its ID. A failed or cancelled pull
// leaves no trace.
func (rt *Runtime) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	request := &runtimeapi.PullImageRequest{Image: image, Auth: auth, SandboxConfig: sandboxConfig}
	if err := rt.enter(ctx, "PullImage", request); err != nil {
		return "", err
	}
	if _, err := normalize(image.GetImage()); err != nil {
		return "", status.Errorf(codes.InvalidArgument, "failed to parse image reference %q: %v", image.GetImage(), err)
	}
	pulled, err := rt.pull(ctx, image, auth)
	if err != nil {
		return "", err
	}
	if pulled.Name == "" {
		pulled.Name = image.GetImage()
	}
	if err := validateImage(pulled); err != nil {
		return "", status.Errorf(codes.Internal, "invalid image from Config.Pull for %q: %v", image.GetImage(), err)
	}
	rt.images.mu.Lock()
	defer rt.images.mu.Unlock()
	return rt.images.put(pulled).ID, nil
}

// pull calls Config.Pull, with a context that ends with the call and the runtime.
func (rt *Runtime) pull(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig) (pulled Image, err error) {
	l := rt.currentLife()
	bounded, cancel := l.bound(ctx)
	defer cancel()
	err = rt.hook("Config.Pull", func() (err error) {
		pulled, err = rt.cfg.Pull(bounded, clone(image), clone(auth))
		return err
	})
	if err != nil {
		return Image{}, interceptError(bounded, err)
	}
	return pulled, sessionEnded(ctx, l)
}

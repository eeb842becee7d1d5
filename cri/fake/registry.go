package fake

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// pullAnything is the registry that has every image.
func pullAnything(_ context.Context, image *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig) (Image, error) {
	return Image{Name: image.GetImage()}, nil
}

// Registry answers pulls from a list. A name that is not in it is NotFound. It
// fails for a list with an image that is none.
func Registry(images ...RemoteImage) (Puller, error) {
	byName := make(map[string]RemoteImage, len(images))
	for _, image := range images {
		if err := validateImage(image.Image); err != nil {
			return nil, err
		}
		byName[withTag(image.Name)] = image
	}
	return func(ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig) (Image, error) {
		image, ok := byName[withTag(spec.GetImage())]
		if err := wait(ctx, image.Latency); err != nil {
			return Image{}, err
		}
		switch {
		case !ok:
			return Image{}, status.Errorf(codes.NotFound, "failed to pull and unpack image %q: %s: not found", spec.GetImage(), spec.GetImage())
		case image.Err != nil:
			return Image{}, image.Err
		case image.Username != "" && (auth.GetUsername() != image.Username || auth.GetPassword() != image.Password):
			return Image{}, status.Errorf(codes.Unknown, "failed to pull and unpack image %q: pull access denied, repository does not exist or may require authorization", spec.GetImage())
		}
		return image.Image, nil
	}, nil
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package fake

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

type RemoteImage struct {
	// Image is the image that a pull returns.
	Image
	// Latency is the response time of the registry. Default: 0.
	Latency time.Duration

	// BytesPerSecond is the transfer rate of the image's Size. Default: no delay.
	BytesPerSecond uint64
	// Err fails the pull, after Latency. Default: the pull succeeds.
	Err error

	// Username and Password are the required credentials of a pull if Username is set. The pull
	// gives them as fields, or joined by ":" in base64.
	Username, Password string
	// IdentityToken and RegistryToken are alternative credentials: a pull with either is admitted.
	// Default: none.
	IdentityToken, RegistryToken string
}

// pullAnything is a registry with every image.
func pullAnything(_ context.Context, image *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig) (Image, error) {
	return Image{Name: image.GetImage()}, nil
}

// Registry returns a Puller for a list of images. A name that is not in the list is NotFound.
// Registry fails if the list has an invalid image or a name twice.
func Registry(images ...RemoteImage) (Puller, error) {
	byName := make(map[string]*RemoteImage, len(images))
	for i, image := range images {
		if err := validateImage(image.Image); err != nil {
			return nil, fmt.Errorf("fake: Registry: image %d: %w", i, err)
		}
		name, err := normalize(image.Name)
		if err != nil {
			return nil, fmt.Errorf("fake: Registry: image %d: %w", i, err)
		}
		if byName[name] != nil {
			return nil, fmt.Errorf("fake: Registry: image %d: duplicate name %s", i, name)
		}
		fields.Default(&image.Size, 1<<20)
		byName[name] = &image
	}
	return func(ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig) (Image, error) {
		name, err := normalize(spec.GetImage())
		if err != nil {
			return Image{}, err
		}
		image := byName[name]
		if image == nil {
			return Image{}, status.Errorf(codes.NotFound, "failed to pull and unpack image %q: failed to resolve image: %s: not found", name, name)
		}
		return image.pull(ctx, name, auth)
	}, nil
}

// pull simulates one pull of the image.
func (r *RemoteImage) pull(ctx context.Context, name string, auth *runtimeapi.AuthConfig) (Image, error) {
	if err := wait(ctx, r.Latency); err != nil {
		return Image{}, err
	}
	if r.Err != nil {
		return Image{}, r.Err
	}
	admitted, err := r.admits(auth)
	switch {
	case err != nil:
		return Image{}, status.Errorf(codes.Unknown, "failed to pull and unpack image %q: %v", name, err)
	case !admitted:
		return Image{}, status.Errorf(codes.Unknown, "failed to pull and unpack image %q: failed to resolve image: "+
			"pull access denied, repository does not exist or may require authorization: authorization failed", name)
	}
	if r.BytesPerSecond == 0 {
		return r.Image, ctx.Err()
	}
	seconds := float64(r.Size) / float64(r.BytesPerSecond)
	return r.Image, wait(ctx, time.Duration(seconds*float64(time.Second)))
}

// admits reports whether a pull has the required credentials.
func (r *RemoteImage) admits(auth *runtimeapi.AuthConfig) (bool, error) {
	if r.Username == "" && r.IdentityToken == "" && r.RegistryToken == "" {
		return true, nil
	}
	username, password, err := login(auth)
	if err != nil {
		return false, err
	}
	token := func(want, got string) bool { return want != "" && want == got }
	return token(r.IdentityToken, auth.GetIdentityToken()) || token(r.RegistryToken, auth.GetRegistryToken()) ||
		(token(r.Username, username) && r.Password == password), nil
}

// login returns user and password, which may be joined in base64.
func login(auth *runtimeapi.AuthConfig) (username, password string, err error) {
	if auth.GetUsername() != "" || auth.GetAuth() == "" {
		return auth.GetUsername(), auth.GetPassword(), nil
	}
	raw, err := base64.StdEncoding.DecodeString(auth.GetAuth())
	if err != nil {
		return "", "", err
	}
	username, password, found := strings.Cut(string(raw), ":")
	if !found {
		return "", "", errors.New("invalid decoded auth")
	}
	return username, strings.Trim(password, "\x00"), nil
}

func wait(ctx context.Context, d time.Duration) error {
	if d > 0 {
		run.Sleep(ctx, d)
	}
	return ctx.Err()
}

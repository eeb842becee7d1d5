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

// RemoteImage is an image in a Registry.
type RemoteImage struct {
	// Image is what a pull brings.
	Image
	// Latency is how long the registry takes to answer. Default 0.
	Latency time.Duration

	// BytesPerSecond is the rate at which Size arrives. Default (and meaning of
	// zero): at once.
	BytesPerSecond uint64
	// Err fails the pull, after Latency. Default: the pull succeeds.
	Err error

	// Username and Password must be given by the pull when Username is set, as
	// they are or joined by ":" in base64.
	Username, Password string
	// IdentityToken and RegistryToken are further ways to be let in: a pull
	// that gives either is as good as one with the password. Default none.
	IdentityToken, RegistryToken string
}

// pullAnything is the registry that has every image.
func pullAnything(_ context.Context, image *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig) (Image, error) {
	return Image{Name: image.GetImage()}, nil
}

// Registry answers pulls from a list. A name that is not in it is NotFound. It
// fails for a list with an image that is none, or is in it twice.
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
			return nil, fmt.Errorf("fake: Registry: image %d: %s is there twice", i, name)
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

// pull is one pull of the image.
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

// admits tells whether a pull is let in.
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

// login reads user and password, which may come joined and in base64.
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

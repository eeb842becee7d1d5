package fake

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RemoteImage is an image in a Registry.
type RemoteImage struct {
	// Image is what a pull brings.
	Image
	// Latency is how long the registry takes to answer. Default 0.
	Latency time.Duration

	// BytesPerSecond is how fast the layers come. Default (and meaning of
	// zero): at once.
	BytesPerSecond uint64
	// Layers are the sizes of its layers in bytes, which come one after the
	// other. Size defaults to their sum. Default: one layer of Size.
	Layers []uint64
	// Stall is how long nothing comes any more once StallAt bytes have come;
	// negative: for ever. Default 0: nothing stalls.
	Stall   time.Duration
	StallAt uint64

	// Err fails the pull, after Latency. Default nil.
	Err error
	// FailFirst is how many pulls Err fails, before further ones succeed.
	// Default (and meaning of zero): every pull.
	FailFirst int

	// Username and Password must be given by the pull when Username is set, as
	// they are or joined by ":" in base64.
	Username, Password string
	// IdentityToken and RegistryToken are further ways to be let in: a pull
	// that gives either is as good as one with the password. Default none.
	IdentityToken, RegistryToken string
}

// remote is an image in a registry with what has happened to it.
type remote struct {
	RemoteImage

	mu     sync.Mutex
	failed int
}

// pullAnything is the registry that has every image.
func pullAnything(_ context.Context, image *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig) (Image, error) {
	return Image{Name: image.GetImage()}, nil
}

// Registry answers pulls from a list. A name that is not in it is NotFound. It
// fails for a list with an image that is none, or is in it twice.
func Registry(images ...RemoteImage) (Puller, error) {
	byName := make(map[string]*remote, len(images))
	for i, image := range images {
		if err := validateImage(image.Image); err != nil {
			return nil, fmt.Errorf("fake: Registry: image %d: %w", i, err)
		}
		if image.FailFirst < 0 {
			return nil, fmt.Errorf("fake: Registry: image %d: FailFirst of %s is negative", i, image.Name)
		}
		name, err := normalize(image.Name)
		if err != nil {
			return nil, fmt.Errorf("fake: Registry: image %d: %w", i, err)
		}
		if byName[name] != nil {
			return nil, fmt.Errorf("fake: Registry: image %d: %s is there twice", i, name)
		}
		byName[name] = newRemote(image)
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

func newRemote(image RemoteImage) *remote {
	if image.Size == 0 {
		for _, layer := range image.Layers {
			image.Size += layer
		}
	}
	setDefault(&image.Size, 1<<20)
	if len(image.Layers) == 0 {
		image.Layers = []uint64{image.Size}
	}
	return &remote{RemoteImage: image}
}

// pull is one pull of the image.
func (r *remote) pull(ctx context.Context, name string, auth *runtimeapi.AuthConfig) (Image, error) {
	if err := wait(ctx, r.Latency); err != nil {
		return Image{}, err
	}
	if err := r.fails(); err != nil {
		return Image{}, err
	}
	admitted, err := r.admits(auth)
	switch {
	case err != nil:
		return Image{}, status.Errorf(codes.Unknown, "failed to pull and unpack image %q: %v", name, err)
	case !admitted:
		return Image{}, status.Errorf(codes.Unknown, "failed to pull and unpack image %q: failed to resolve image: "+
			"pull access denied, repository does not exist or may require authorization: authorization failed", name)
	}
	if err := r.fetch(ctx); err != nil {
		return Image{}, err
	}
	return r.Image, nil
}

// fails counts the pulls that Err fails.
func (r *remote) fails() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Err == nil || (r.FailFirst > 0 && r.failed >= r.FailFirst) {
		return nil
	}
	r.failed++
	return r.Err
}

// admits tells whether a pull is let in.
func (r *remote) admits(auth *runtimeapi.AuthConfig) (bool, error) {
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

// fetch takes the time that the layers take, and tells how far it has come.
func (r *remote) fetch(ctx context.Context) error {
	var done, total uint64
	for _, layer := range r.Layers {
		total += layer
	}
	ReportProgress(ctx, 0, total)
	for stalls := r.Stall != 0; done < total || stalls; {
		if stalls && done >= r.StallAt {
			stalls = false
			if err := waitFor(ctx, r.Stall); err != nil {
				return err
			}
			continue
		}
		if done == total { // the stall lies beyond the end
			break
		}
		next := r.next(done)
		if stalls {
			next = min(next, max(r.StallAt-done, 1))
		}
		if err := r.travel(ctx, next); err != nil {
			return err
		}
		done += next
		ReportProgress(ctx, done, total)
	}
	return ctx.Err()
}

// next is how many bytes come next: those of a second, but never beyond the end
// of a layer.
func (r *remote) next(done uint64) uint64 {
	var end uint64
	for _, layer := range r.Layers {
		if end += layer; end > done {
			break
		}
	}
	if r.BytesPerSecond == 0 {
		return end - done
	}
	return min(end-done, r.BytesPerSecond)
}

// travel is the time that bytes take.
func (r *remote) travel(ctx context.Context, bytes uint64) error {
	if r.BytesPerSecond == 0 {
		return ctx.Err()
	}
	return wait(ctx, time.Duration(float64(bytes)/float64(r.BytesPerSecond)*float64(time.Second)))
}

// waitFor is wait, for ever when d is negative.
func waitFor(ctx context.Context, d time.Duration) error {
	if d < 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return wait(ctx, d)
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

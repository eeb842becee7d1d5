package fake_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// A container shows the name of its image until the image is removed.
func TestImageOfAContainerIsRemoved(t *testing.T) {
	ctx := t.Context()
	rt := start(t, fake.Config{Images: []fake.Image{{Name: "busybox"}}})
	_, id := running(t, rt)
	const name = "docker.io/library/busybox"
	require.Equal(t, name+":latest", statusOf(t, rt, id).Image.Image)
	require.Contains(t, statusOf(t, rt, id).ImageRef, name+"@sha256:")

	imageID := statusOf(t, rt, id).ImageId
	require.NoError(t, rt.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: imageID}))
	require.Equal(t, "busybox", statusOf(t, rt, id).Image.Image)
	require.Equal(t, imageID, statusOf(t, rt, id).ImageRef)

	_, err := rt.PullImage(ctx, &runtimeapi.ImageSpec{Image: "busybox"}, nil, nil)
	require.NoError(t, err)
	require.Equal(t, name+":latest", statusOf(t, rt, id).Image.Image)
	require.Contains(t, statusOf(t, rt, id).ImageRef, name+"@sha256:")
}

func TestAnyImage(t *testing.T) {
	ctx := t.Context()
	rt := start(t, fake.Config{AnyImage: true})
	response, err := rt.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: "whatever:1"}, false)
	require.NoError(t, err)
	require.NotZero(t, response.Image.Size)
	list, err := rt.ListImages(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, list)
	running(t, rt)
	list, err = rt.ListImages(ctx, nil)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, []string{"docker.io/library/busybox:latest"}, list[0].RepoTags)
}

// KEP-4191: writable layers may be on another filesystem than images.
func TestSplitFilesystem(t *testing.T) {
	rt := start(t, fake.Config{AnyImage: true, ImageFilesystem: "/images", ContainerFilesystem: "/containers"})
	usage, err := rt.ImageFsInfo(t.Context())
	require.NoError(t, err)
	require.Equal(t, "/images", usage.ImageFilesystems[0].FsId.Mountpoint)
	require.Equal(t, "/containers", usage.ContainerFilesystems[0].FsId.Mountpoint)
}

const mib = 1 << 20

func registry(t *testing.T, images ...fake.RemoteImage) fake.Puller {
	t.Helper()
	puller, err := fake.Registry(images...)
	require.NoError(t, err)
	return puller
}

// pulling starts a pull and returns the channel of its result.
func pulling(ctx context.Context, rt *fake.Runtime, name string) <-chan error {
	result := make(chan error, 1)
	go func() {
		_, err := rt.PullImage(ctx, imageSpec(name), nil, nil)
		result <- err
	}()
	return result
}

func present(t *testing.T, rt *fake.Runtime, name string) bool {
	t.Helper()
	response, err := rt.ImageStatus(t.Context(), imageSpec(name), false)
	require.NoError(t, err)
	return response.Image != nil
}

// A pull takes its latency and the transfer time of its bytes. A cancelled pull leaves no trace.
func TestSlowPulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{Pull: registry(t, fake.RemoteImage{
			Image: fake.Image{Name: "big", Size: 15 * mib}, BytesPerSecond: mib, Latency: 2 * time.Second,
		})})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.Equal(t, codes.DeadlineExceeded, status.Code(<-pulling(ctx, rt, "big")))
		usage, err := rt.ImageFsInfo(t.Context())
		require.NoError(t, err)
		require.Zero(t, usage.ImageFilesystems[0].UsedBytes.Value)
		require.False(t, present(t, rt, "big"))
		began := time.Now()
		first, second := pulling(t.Context(), rt, "big"), pulling(t.Context(), rt, "big")
		require.NoError(t, <-first)
		require.NoError(t, <-second)
		require.Equal(t, 17*time.Second, time.Since(began))
		require.True(t, present(t, rt, "big"))
		usage, err = rt.ImageFsInfo(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 15*mib, usage.ImageFilesystems[0].UsedBytes.Value, "one image")
	})
}

func TestPullFailures(t *testing.T) {
	rt := start(t, fake.Config{Pull: registry(t,
		fake.RemoteImage{Image: fake.Image{Name: "always"}, Err: errors.New("RegistryUnavailable: down")},
	)})
	require.ErrorContains(t, <-pulling(t.Context(), rt, "always"), "RegistryUnavailable")
	err := <-pulling(t.Context(), rt, "unknown")
	require.Equal(t, codes.NotFound, status.Code(err))
	require.ErrorContains(t, err, `"docker.io/library/unknown:latest"`)
}

func TestRegistryCredentials(t *testing.T) {
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, tc := range []struct {
		name string
		auth *runtimeapi.AuthConfig
		want string
	}{
		{"none", nil, "access denied"},
		{"user and password", &runtimeapi.AuthConfig{Username: "me", Password: "a:b"}, ""},
		{"another password", &runtimeapi.AuthConfig{Username: "me", Password: "x"}, "access denied"},
		{"another user", &runtimeapi.AuthConfig{Username: "you", Password: "a:b"}, "access denied"},
		{"in base64", &runtimeapi.AuthConfig{Auth: encoded("me:a:b")}, ""},
		{"in base64, filled up", &runtimeapi.AuthConfig{Auth: encoded("me:a:b\x00\x00")}, ""},
		{"in base64, another", &runtimeapi.AuthConfig{Auth: encoded("me:c")}, "access denied"},
		{"base64 of something else", &runtimeapi.AuthConfig{Auth: encoded("me")}, "invalid decoded auth"},
		{"not base64", &runtimeapi.AuthConfig{Auth: "!"}, "illegal base64"},
		{"identity token", &runtimeapi.AuthConfig{IdentityToken: "it"}, ""},
		{"another identity token", &runtimeapi.AuthConfig{IdentityToken: "rt"}, "access denied"},
		{"registry token", &runtimeapi.AuthConfig{RegistryToken: "rt"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rt := start(t, fake.Config{Pull: registry(t, fake.RemoteImage{
				Image: fake.Image{Name: "private"}, Username: "me", Password: "a:b", IdentityToken: "it", RegistryToken: "rt",
			})})
			_, err := rt.PullImage(t.Context(), imageSpec("private"), tc.auth, nil)
			require.Equal(t, tc.want == "", present(t, rt, "private"))
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, codes.Unknown, status.Code(err))
		})
	}
}

// An image has all names that it was pulled by. Removing it by any name or its ID removes all
// names, as in containerd.
func TestNamesOfAnImage(t *testing.T) {
	id, digest := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	names := []string{"busybox", "host:5000/bb:v1", "busybox@" + digest, id, "docker.io/library/busybox:latest", "host:5000/bb@" + digest, "host:5000/bb:other@" + digest}
	for _, removed := range names {
		rt := start(t, fake.Config{Images: []fake.Image{
			{Name: "busybox", ID: id, Digest: digest, Pinned: true, Username: "www"}, {Name: "host:5000/bb:v1", ID: id, Digest: digest},
		}})
		for _, name := range names {
			response, err := rt.ImageStatus(t.Context(), imageSpec(name), true)
			require.NoError(t, err)
			require.NotNil(t, response.Image, name)
			require.Equal(t, []string{"docker.io/library/busybox:latest", "host:5000/bb:v1"}, response.Image.RepoTags)
			require.Equal(t, []string{"docker.io/library/busybox@" + digest, "host:5000/bb@" + digest}, response.Image.RepoDigests)
			require.True(t, response.Image.Pinned)
			var document struct {
				ImageSpec struct {
					OS     string `json:"os"`
					Config struct{ User string }
				} `json:"imageSpec"`
			}
			require.NoError(t, json.Unmarshal([]byte(response.Info["info"]), &document))
			require.Equal(t, "linux", document.ImageSpec.OS)
			require.Equal(t, "www", document.ImageSpec.Config.User)
		}
		for _, other := range []string{"busybox:v1", "host:5000/bb", "bb:v1", id[:20], strings.TrimPrefix(id, "sha256:")} {
			require.False(t, present(t, rt, other), other)
		}
		sandboxID := sandbox(t, rt, "p")
		container := add(t, rt, sandboxID, "c", true)
		require.NoError(t, rt.RemoveImage(t.Context(), imageSpec(removed)), "in use and pinned")
		for _, name := range names {
			require.False(t, present(t, rt, name), "%s after removal of %s", name, removed)
		}
		require.Equal(t, "RUNNING 0 ", brief(statusOf(t, rt, container)))
		require.Equal(t, "busybox", statusOf(t, rt, container).Image.Image, "as its config has it")
	}
}

func TestRegistryIsChecked(t *testing.T) {
	for want, images := range map[string][]fake.RemoteImage{
		"missing":   {{}},
		"lowercase": {{Image: fake.Image{Name: "Upper"}}},
		"duplicate": {{Image: fake.Image{Name: "a"}}, {Image: fake.Image{Name: "docker.io/library/a:latest"}}},
	} {
		_, err := fake.Registry(images...)
		require.ErrorContains(t, err, want)
	}
}

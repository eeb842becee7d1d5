package fake_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

func TestImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		spec := func(name string) *runtimeapi.ImageSpec { return &runtimeapi.ImageSpec{Image: name} }
		uid := int64(1000)
		registry, err := fake.Registry(
			fake.RemoteImage{Image: fake.Image{Name: "slow:1", Size: 5}, Latency: time.Minute},
			fake.RemoteImage{Image: fake.Image{Name: "broken"}, Err: errors.New("RegistryUnavailable: down")},
			fake.RemoteImage{Image: fake.Image{Name: "private"}, Username: "me", Password: "pw"},
		)
		require.NoError(t, err)
		rt := start(t, fake.Config{Images: []fake.Image{{Name: "here", UID: &uid, Pinned: true}}, Pull: registry})

		for _, name := range []string{"here", "here:latest"} {
			response, err := rt.ImageStatus(ctx, spec(name), false)
			require.NoError(t, err)
			require.EqualValues(t, 1000, response.Image.Uid.Value)
			require.True(t, response.Image.Pinned)
			require.Equal(t, []string{"docker.io/library/here:latest"}, response.Image.RepoTags)
			byID, err := rt.ImageStatus(ctx, spec(response.Image.Id), false)
			require.NoError(t, err)
			require.Equal(t, response.Image.Id, byID.Image.Id)
			byDigest, err := rt.ImageStatus(ctx, spec(response.Image.RepoDigests[0]), true)
			require.NoError(t, err)
			require.Equal(t, response.Image.Id, byDigest.Image.Id)
		}
		absent, err := rt.ImageStatus(ctx, spec("slow:1"), false)
		require.NoError(t, err)
		require.Nil(t, absent.Image)

		began := time.Now()
		ref, err := rt.PullImage(ctx, spec("slow:1"), nil, nil)
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(began))
		present, err := rt.ImageStatus(ctx, spec("slow:1"), false)
		require.NoError(t, err)
		require.Equal(t, ref, present.Image.Id)
		require.EqualValues(t, 5, present.Image.Size)
		list, err := rt.ListImages(ctx, nil)
		require.NoError(t, err)
		require.Len(t, list, 2)
		usage, err := rt.ImageFsInfo(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 1<<20+5, usage.ImageFilesystems[0].UsedBytes.Value)
		require.Equal(t, "/", usage.ImageFilesystems[0].FsId.Mountpoint)
		require.Equal(t, usage.ImageFilesystems[0].FsId.Mountpoint, usage.ContainerFilesystems[0].FsId.Mountpoint)

		_, err = rt.PullImage(ctx, spec("broken"), nil, nil)
		require.ErrorContains(t, err, "RegistryUnavailable")
		_, err = rt.PullImage(ctx, spec("unknown"), nil, nil)
		require.True(t, cri.IsNotFound(err))
		_, err = rt.PullImage(ctx, spec(""), nil, nil)
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		_, err = rt.PullImage(ctx, spec("private"), nil, nil)
		require.ErrorContains(t, err, "access denied")
		_, err = rt.PullImage(ctx, spec("private"), &runtimeapi.AuthConfig{Username: "me", Password: "pw"}, nil)
		require.NoError(t, err)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = rt.PullImage(short, spec("slow:1"), nil, nil)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))

		list, err = rt.ListImages(ctx, &runtimeapi.ImageFilter{Image: spec("slow:1")})
		require.NoError(t, err)
		require.Len(t, list, 3, "the filter has no effect")

		require.NoError(t, rt.RemoveImage(ctx, spec("slow:1")))
		require.NoError(t, rt.RemoveImage(ctx, spec("slow:1")))
		absent, err = rt.ImageStatus(ctx, spec(ref), false)
		require.NoError(t, err)
		require.Nil(t, absent.Image)
	})
}

// A container is named by its image for as long as that is there.
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

// KEP-4191: what containers write may be elsewhere than their images.
func TestSplitFilesystem(t *testing.T) {
	rt, err := fake.New(fake.Config{AnyImage: true, ImageFilesystem: "/images", ContainerFilesystem: "/containers"})
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	usage, err := rt.ImageFsInfo(t.Context())
	require.NoError(t, err)
	require.Equal(t, "/images", usage.ImageFilesystems[0].FsId.Mountpoint)
	require.Equal(t, "/containers", usage.ContainerFilesystems[0].FsId.Mountpoint)
}

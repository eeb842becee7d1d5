package fake_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

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

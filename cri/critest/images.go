package critest

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func imageCases() []testCase {
	return []testCase{
		{"an image that is absent has no status, and that is no error", func(e *env) {
			for _, name := range []string{
				"critest.invalid/absent:v1", "critest.invalid/absent",
				"critest.invalid/absent@sha256:" + strings.Repeat("0", 64), "sha256:" + strings.Repeat("0", 64),
			} {
				require.Nil(e.t, e.image(name), name)
			}
		}},
		{"a pulled image is found by tag, digest and ID", func(e *env) {
			name := e.otherImage()
			e.removeImage(name)
			ref := e.pull(name)
			image := e.image(name)
			require.NotNil(e.t, image)
			require.NotEmpty(e.t, image.GetId())
			require.Positive(e.t, image.GetSize())
			// A runtime may prefix its default registry.
			require.Len(e.t, image.GetRepoTags(), 1)
			require.True(e.t, strings.HasSuffix(image.GetRepoTags()[0], name), image.GetRepoTags()[0])
			require.Len(e.t, image.GetRepoDigests(), 1)
			require.Contains(e.t, image.GetRepoDigests()[0], repositoryOf(name)+"@sha256:")
			for _, other := range []string{ref, image.GetId(), image.GetRepoDigests()[0]} {
				require.Equal(e.t, image.GetId(), e.image(other).GetId(), other)
				require.Equal(e.t, image.GetRepoTags(), e.image(other).GetRepoTags(), other)
			}
		}},
		// The image must be in the list, possibly with others: runtimes may ignore the filter.
		{"a filtered list has the requested image", func(e *env) {
			image := e.pulledImage()
			for _, filter := range []*runtimeapi.ImageFilter{nil, {}, {Image: imageSpec(e.OtherImage)}} {
				list, err := e.Images.ListImages(e.ctx, filter)
				require.NoError(e.t, err)
				count := 0
				for _, listed := range list {
					require.NotEmpty(e.t, listed.GetId())
					if listed.GetId() == image.GetId() {
						count++
						require.Equal(e.t, image.GetRepoTags(), listed.GetRepoTags())
						require.Equal(e.t, image.GetSize(), listed.GetSize())
					}
				}
				require.Equal(e.t, 1, count)
			}
			e.removeImage(e.OtherImage)
			list, err := e.Images.ListImages(e.ctx, nil)
			require.NoError(e.t, err)
			for _, listed := range list {
				require.NotEqual(e.t, image.GetId(), listed.GetId())
			}
		}},
		{"removing by tag removes the image", func(e *env) {
			image := e.pulledImage()
			e.removeImage(e.OtherImage)
			e.requireAbsent(image)
		}},
		{"removing by ID removes the image with all its names", func(e *env) {
			image := e.pulledImage()
			e.removeImage(image.GetId())
			e.requireAbsent(image)
		}},
		{"removing an absent image succeeds", func(e *env) {
			image := e.pulledImage()
			for range 2 {
				e.removeImage(e.OtherImage)
				e.removeImage(image.GetId())
			}
			e.removeImage("critest.invalid/absent:v1")
		}},
		{"pulling again changes nothing", func(e *env) {
			before := e.pulledImage()
			first := e.pull(e.OtherImage)
			require.Equal(e.t, first, e.pull(e.OtherImage))
			after := e.image(e.OtherImage)
			require.Equal(e.t, before.GetId(), after.GetId())
			require.Equal(e.t, before.GetRepoTags(), after.GetRepoTags())
			require.Equal(e.t, before.GetRepoDigests(), after.GetRepoDigests())
		}},
		{"pulls of one image at the same time all succeed", func(e *env) {
			name := e.otherImage()
			e.removeImage(name)
			refs, failures := make([]string, 4), make([]error, 4)
			var pulling sync.WaitGroup
			for i := range refs {
				pulling.Go(func() { refs[i], failures[i] = e.Images.PullImage(e.ctx, imageSpec(name), nil, nil) })
			}
			pulling.Wait()
			require.NoError(e.t, errors.Join(failures...))
			for _, ref := range refs {
				require.Equal(e.t, refs[0], ref)
			}
			require.NotNil(e.t, e.image(name))
		}},
		{"an image pulled by digest has no tag", func(e *env) {
			image := e.pulledImage()
			digest := image.GetRepoDigests()[0]
			e.removeImage(e.OtherImage)
			e.pull(digest)
			require.Nil(e.t, e.image(e.OtherImage))
			byDigest := e.image(digest)
			require.Equal(e.t, image.GetId(), byDigest.GetId())
			require.Empty(e.t, byDigest.GetRepoTags())
			require.Equal(e.t, []string{digest}, byDigest.GetRepoDigests())
			e.pull(e.OtherImage)
			require.Equal(e.t, image.GetRepoTags(), e.image(digest).GetRepoTags())
		}},
		{"an image that no registry has is NotFound", func(e *env) {
			name := repositoryOf(e.otherImage())
			for _, absent := range []string{name + ":critest-absent", name + "@sha256:" + strings.Repeat("0", 64)} {
				_, err := e.Images.PullImage(e.ctx, imageSpec(absent), nil, nil)
				e.notFound(err)
				require.Nil(e.t, e.image(absent))
			}
		}},
		{"malformed names are refused", func(e *env) {
			for _, name := range []string{"", "critest.invalid/UPPER", "critest.invalid/a b", "critest.invalid/", "critest.invalid/a:b:c", "critest.invalid/a@sha256:b"} {
				_, err := e.Images.PullImage(e.ctx, imageSpec(name), nil, nil)
				require.Error(e.t, err, name)
				require.NotContains(e.t, []codes.Code{codes.NotFound, codes.Unimplemented, codes.DeadlineExceeded}, status.Code(err), "%q: %v", name, err)
			}
		}},
		{"a cancelled pull adds no image", func(e *env) {
			name := e.otherImage()
			e.removeImage(name)
			ctx, cancel := context.WithCancel(e.ctx)
			cancel()
			_, err := e.Images.PullImage(ctx, imageSpec(name), nil, nil)
			require.ErrorIs(e.t, err, context.Canceled)
			require.Nil(e.t, e.image(name))
		}},
		{"the file system of images is described", func(e *env) {
			info, err := e.Images.ImageFsInfo(e.ctx)
			require.NoError(e.t, err)
			require.NotEmpty(e.t, info.GetImageFilesystems())
			for _, filesystem := range info.GetImageFilesystems() {
				require.NotEmpty(e.t, filesystem.GetFsId().GetMountpoint())
				require.Positive(e.t, filesystem.GetTimestamp())
				require.NotNil(e.t, filesystem.GetUsedBytes())
			}
		}},
		{"a container continues without its image", func(e *env) {
			image := e.pulledImage()
			p := e.newPod()
			config := e.container("main", quits.command()...)
			config.Image.Image = e.OtherImage
			id := e.start(p.id, config, p.config)
			require.NotEmpty(e.t, e.status(id).GetImageRef())
			e.removeImage(image.GetId())
			e.requireAbsent(image)
			after := e.status(id)
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, after.GetState())
			require.NotEmpty(e.t, after.GetImage().GetImage())
			require.NotEmpty(e.t, after.GetImageRef())
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, 0))
		}},
		{"no container is made from an image that is absent", func(e *env) {
			image := e.pulledImage()
			p := e.newPod()
			e.removeImage(e.OtherImage)
			for _, name := range []string{e.OtherImage, image.GetId()} {
				config := e.container("main", unprepared.command()...)
				config.Image.Image = name
				_, err := e.Runtime.CreateContainer(e.ctx, p.id, config, p.config)
				e.notFound(err)
			}
		}},
	}
}

// otherImage returns Subject.OtherImage, which the case may remove. It is pulled again at the end
// of the case.
func (e *env) otherImage() string {
	e.t.Helper()
	if e.OtherImage == "" {
		e.t.Skip("Subject.OtherImage is not set")
	}
	e.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), waitTimeout)
		defer cancel()
		_, err := e.Images.PullImage(ctx, imageSpec(e.OtherImage), nil, nil)
		require.NoError(e.t, err)
	})
	return e.OtherImage
}

// pulledImage pulls otherImage.
func (e *env) pulledImage() *runtimeapi.Image {
	e.t.Helper()
	name := e.otherImage()
	e.pull(name)
	return e.image(name)
}

func imageSpec(name string) *runtimeapi.ImageSpec { return &runtimeapi.ImageSpec{Image: name} }

func (e *env) pull(name string) string {
	e.t.Helper()
	ref, err := e.Images.PullImage(e.ctx, imageSpec(name), nil, nil)
	require.NoError(e.t, err)
	require.NotEmpty(e.t, ref)
	return ref
}

// image returns an image, or nil if it is absent.
func (e *env) image(name string) *runtimeapi.Image {
	e.t.Helper()
	response, err := e.Images.ImageStatus(e.ctx, imageSpec(name), false)
	require.NoError(e.t, err)
	return response.GetImage()
}

func (e *env) removeImage(name string) {
	e.t.Helper()
	require.NoError(e.t, e.Images.RemoveImage(e.ctx, imageSpec(name)))
}

// repositoryOf returns an image name without its tag.
func repositoryOf(name string) string {
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		return name[:i]
	}
	return name
}

// requireAbsent requires that no name of an image finds it.
func (e *env) requireAbsent(image *runtimeapi.Image) {
	e.t.Helper()
	names := append([]string{image.GetId()}, image.GetRepoTags()...)
	for _, name := range append(names, image.GetRepoDigests()...) {
		require.Nil(e.t, e.image(name), name)
	}
}

package gc_test

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/images/gc"
	"github.com/podwright/podwright/internal/testkit/testcri"
)

// The tests in this file need real runtimes. examples/tools/testbed provides them and sets the
// variables with their endpoints.

// wouldRemove is a runtime whose images other tests use, too. It records removals instead of
// executing them.
type wouldRemove struct {
	cri.ImageService
	mu      sync.Mutex
	removed []string
}

func (w *wouldRemove) RemoveImage(_ context.Context, image *runtimeapi.ImageSpec) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed = append(w.removed, image.Image)
	return nil
}

// onlyContainers hides all interfaces of a runtime except Containers.
type onlyContainers struct{ gc.Containers }

func idOf(t *testing.T, images cri.ImageService, name string) string {
	t.Helper()
	reply, err := images.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: name}, false)
	require.NoError(t, err)
	require.NotEmpty(t, reply.GetImage().GetId(), name)
	return reply.Image.Id
}

// unused collects with a minimal threshold and returns the images that would be removed.
func unused(t *testing.T, images cri.ImageService, containers gc.Containers) []string {
	t.Helper()
	w := &wouldRemove{ImageService: images}
	m, err := gc.New(gc.Config{
		Images: w, Containers: containers, Policy: gc.Policy{HighPercent: 1, MinAge: time.Nanosecond},
		Disk: func(context.Context) (gc.Disk, error) { return gc.Disk{Capacity: 1 << 40}, nil },
	})
	require.NoError(t, err)
	require.ErrorContains(t, m.Collect(t.Context()), "Insufficient free disk space", "the disk is full of other files")
	return w.removed
}

// C43: the sandbox image is kept, whether the runtime pins it or only reports it.
func TestContainerdKeepsSandboxImage(t *testing.T) {
	testcri.Each(t, func(t *testing.T, node testcri.Node) {
		runtime, images := node.Runtime(t), node.Images(t)
		pause := idOf(t, images, node.Pause)
		require.NotContains(t, unused(t, images, runtime), pause)
		require.Equal(t, node.Old(), slices.Contains(unused(t, images, onlyContainers{runtime}), pause), "containerd 2 pins it")
	})
}

// C43, V34: the image of an image volume is in use by the container that has it mounted.
func TestContainerdKeepsMountedImages(t *testing.T) {
	testcri.Each(t, func(t *testing.T, node testcri.Node) {
		runtime, images := node.Runtime(t), node.Images(t)
		if node.Old() {
			t.Skip("containerd 1.6 has no image volumes")
		}
		volume := idOf(t, images, node.Pause)
		uid := strings.ToLower(rand.Text())
		pod := &runtimeapi.PodSandboxConfig{
			Metadata:     &runtimeapi.PodSandboxMetadata{Name: "gc-test-" + uid[:6], Namespace: "gc-test", Uid: uid},
			LogDirectory: t.TempDir(),
			Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
			}},
		}
		sandbox, err := runtime.RunPodSandbox(t.Context(), pod, "")
		require.NoError(t, err)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
			defer cancel()
			require.NoError(t, runtime.StopPodSandbox(ctx, sandbox))
			require.NoError(t, runtime.RemovePodSandbox(ctx, sandbox))
		})
		id, err := runtime.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
			Image:    &runtimeapi.ImageSpec{Image: node.Busybox},
			Command:  []string{"sleep", "100"},
			LogPath:  "0.log",
			Mounts:   []*runtimeapi.Mount{{ContainerPath: "/image", Image: &runtimeapi.ImageSpec{Image: volume}, Readonly: true}},
			Linux:    &runtimeapi.LinuxContainerConfig{},
		}, pod)
		require.NoError(t, err)
		reply, err := runtime.ContainerStatus(t.Context(), id, false)
		require.NoError(t, err)
		mounted := slices.ContainsFunc(reply.Status.Mounts, func(m *runtimeapi.Mount) bool { return m.GetImage().GetImage() == volume })
		require.True(t, mounted, "the runtime tells of image volumes: %v", reply.Status.Mounts)
	})
}

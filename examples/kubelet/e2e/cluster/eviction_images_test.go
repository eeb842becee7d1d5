package cluster_test

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/examples/tools/testbed/tb"
	"github.com/podwright/podwright/examples/tools/testbed/tb/controlplane"
)

// N27: the runtime's separate disk runs short. An unused image is removed before any pod is
// evicted, and at first this is enough. Later the pod is evicted whose container wrote to its own
// layer. (Both runtimes keep images and container layers on one disk.)
func TestEvictionOnRuntimeDisk(t *testing.T) {
	onRuntimes(t, func(t *testing.T, plane controlplane.Handle, rt tb.Runtime) {
		disk := ownDisk(t, rt, "size=512m")
		images, err := cri.DialImages(t.Context(), cri.ClientConfig{Endpoint: rt.Endpoint})
		require.NoError(t, err)
		defer images.Close()
		large := largeImage(t, images, 150<<20) // before the node: an image's age begins when the node first sees it
		n := newNode(t, plane, rt, configDir(t, fastEviction+"evictionHard: {imagefs.available: 200Mi}\nimageMinimumGCAge: 1s"))
		n.apply(t, evictionPod("small", "", "sleep 3600"))
		n.apply(t, evictionPod("wants", "resources: {requests: {ephemeral-storage: 64Mi}}", "head -c 20000000 /dev/zero > /f; sleep 3600"))
		n.ready(t, "small")
		n.ready(t, "wants")
		before := n.ids(t)

		t.Run("images", func(t *testing.T) {
			require.True(t, hasImage(t, images, large))
			var at unix.Statfs_t
			require.NoError(t, unix.Statfs(disk, &at))
			ballast := filepath.Join(disk, "ballast")
			writeZeros(t, ballast, int64(at.Bavail)*at.Bsize-130<<20)
			defer os.Remove(ballast)
			const pressure = `{.status.conditions[?(@.type=="DiskPressure")].status}`
			n.waitField(t, "node", n.name, pressure, "True")
			n.until(t, "the image is removed", func() error {
				if hasImage(t, images, large) {
					return errors.New("the image exists")
				}
				return nil
			})
			n.waitField(t, "node", n.name, pressure, "False")
			require.Empty(t, n.do(t, "get", "events", "--field-selector=reason=Evicted", "-o", "name"))
		})
		t.Run("layer", func(t *testing.T) {
			n.apply(t, evictionPod("filler", "", "head -c 330000000 /dev/zero > /f; sleep 3600"))
			n.waitNodeEviction(t, "filler", "ephemeral-storage", "DiskPressure", "KubeletHasDiskPressure")
			require.Contains(t, n.get(t, "pod", "filler", "{.status.message}"), "Container c was using ")
		})
		require.Equal(t, before, n.ids(t), "no other pod was evicted")
	})
}

// ownDisk gives a runtime without pods a separate, empty root folder for the duration of a test.
func ownDisk(t *testing.T, rt tb.Runtime, size string) string {
	t.Helper()
	root := filepath.Join(filepath.Dir(strings.TrimPrefix(rt.Endpoint, "unix://")), "root")
	require.DirExists(t, root)
	rt.Stop(t)
	require.NoError(t, unix.Mount("tmpfs", root, "tmpfs", 0, size))
	t.Cleanup(func() {
		rt.Stop(t)
		require.NoError(t, unix.Unmount(root, unix.MNT_DETACH))
		rt.Start(t)
	})
	rt.Start(t)
	return root
}

// largeImage lets the runtime pull a large image, and returns its name.
func largeImage(t *testing.T, images *cri.ImageClient, size int64) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "layer.tar")
	layer, err := os.Create(file)
	require.NoError(t, err)
	w := tar.NewWriter(layer)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o644, Size: size}))
	_, err = io.CopyN(w, zeroReader{}, size)
	require.NoError(t, errors.Join(err, w.Close(), layer.Close()))
	content, err := tarball.LayerFromFile(file)
	require.NoError(t, err)
	img, err := mutate.AppendLayers(empty.Image, content)
	require.NoError(t, err)
	cfg, err := img.ConfigFile()
	require.NoError(t, err)
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", runtime.GOARCH
	img, err = mutate.ConfigFile(img, cfg)
	require.NoError(t, err)
	ref, err := name.ParseReference(tb.Images(t).Registry+"/podwright/large-"+strings.ToLower(rand.Text())+":1", name.Insecure)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, img, remote.WithTransport(&http.Transport{DisableKeepAlives: true})))
	_, err = images.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: ref.Name()}, nil, nil)
	require.NoError(t, err)
	return ref.Name()
}

func hasImage(t *testing.T, images *cri.ImageClient, image string) bool {
	t.Helper()
	list, err := images.ListImages(t.Context(), nil)
	require.NoError(t, err)
	return slices.ContainsFunc(list, func(i *runtimeapi.Image) bool { return slices.Contains(i.RepoTags, image) })
}

func writeZeros(t *testing.T, file string, size int64) {
	t.Helper()
	f, err := os.Create(file)
	require.NoError(t, err)
	_, err = io.CopyN(f, zeroReader{}, size)
	require.NoError(t, errors.Join(err, f.Close()))
}

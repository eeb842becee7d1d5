package guest_test

import (
	"archive/tar"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/cgroups"
)

const image = "podwright.test/prog:1"

// importImage imports an image of this program into containerd, once. The default program of the
// image waits. Outside the guest it skips the test.
func importImage(t *testing.T) {
	t.Helper()
	if os.Getenv("PODWRIGHT_GUEST") == "" {
		t.Skip("go run ./examples/tools/testbed/vm test ./examples/kubelet/e2e/guest")
	}
	have, err := exec.Command("ctr", "-n", "k8s.io", "images", "ls", "-q", "name=="+image).CombinedOutput()
	require.NoError(t, err, string(have))
	if len(have) > 0 {
		return
	}
	layers := filepath.Join(t.TempDir(), "layer.tar")
	file, err := os.Create(layers)
	require.NoError(t, err)
	self, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer self.Close()
	info, err := self.Stat()
	require.NoError(t, err)
	w := tar.NewWriter(file)
	for _, dir := range []string{"proc/", "sys/", "dev/", "tmp/"} {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}))
	}
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "prog", Typeflag: tar.TypeReg, Mode: 0o755, Size: info.Size()}))
	_, err = io.Copy(w, self)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, file.Close())
	layer, err := tarball.LayerFromFile(layers)
	require.NoError(t, err)
	img, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	cfg, err := img.ConfigFile()
	require.NoError(t, err)
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", runtime.GOARCH
	cfg.Config.Entrypoint, cfg.Config.Env, cfg.Config.WorkingDir = []string{"/prog"}, []string{programVariable + "=pause"}, "/"
	img, err = mutate.ConfigFile(img, cfg)
	require.NoError(t, err)
	tag, err := name.NewTag(image)
	require.NoError(t, err)
	archive := filepath.Join(t.TempDir(), "image.tar")
	require.NoError(t, tarball.WriteToFile(archive, tag, img))
	runCommand(t, "ctr", "-n", "k8s.io", "images", "import", archive)
}

// startContainerd restarts containerd with a cgroup driver.
func startContainerd(t *testing.T, driver cgroups.Driver) {
	systemd := "false"
	if driver == cgroups.Systemd {
		systemd = "true"
	}
	require.NoError(t, os.WriteFile("/etc/containerd/config.toml", []byte(`version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "`+image+`"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = `+systemd+`
`), 0o644))
	runCommand(t, "systemctl", "restart", "containerd")
}

func runCommand(t *testing.T, command string, args ...string) {
	t.Helper()
	out, err := exec.Command(command, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", command, args, out)
}

package csi_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/internal/blockdev"
)

// disks is a driver that publishes a device as real drivers do: as a mount on a file.
type disks struct {
	fake
	device string
}

func (d *disks) Driver(string) csi.Driver { return d }

func (d *disks) Publish(_ context.Context, r csi.PublishRequest) error {
	if err := createPath(r.TargetPath, false); err != nil {
		return err
	}
	return unix.Mount(d.device, r.TargetPath, "", unix.MS_BIND, "")
}

func (d *disks) Unpublish(_ context.Context, _, path string) error {
	if err := unix.Unmount(path, 0); err != nil {
		return err
	}
	return os.Remove(path)
}

// loopDevice returns a loop device that is removed at the end of the test.
func loopDevice(t *testing.T) string {
	if _, err := exec.LookPath("losetup"); os.Getuid() != 0 || err != nil {
		if os.Getenv("PODWRIGHT_REQUIRE_CRI") == "1" {
			t.Fatal("needs root and losetup")
		}
		t.Skip("needs root and losetup")
	}
	file := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, 1<<20))
	out, err := exec.Command("losetup", "-f", "--show", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", device).Run() })
	return device
}

// unmountAtEnd removes a device's loop device and mount at the end of the test.
func unmountAtEnd(t *testing.T, target string) {
	t.Cleanup(func() {
		_ = blockdev.Release(target)
		_ = unix.Unmount(target, unix.MNT_DETACH)
	})
}

func holder(t *testing.T, target string) string {
	loop, err := blockdev.Holder(target)
	require.NoError(t, err)
	return loop
}

// Two pods use a real device through the manager, each by its own link. A killed agent leaves
// the device held, and the next agent releases it.
func TestDeviceOfTwoPods(t *testing.T) {
	d := &disks{device: loopDevice(t)}
	inAgent(t, func(a *agent) {
		var targets []string
		for _, uid := range []types.UID{"1", "2"} {
			target := a.layout.Plugin(csi.Name) + "/volumeDevices/publish/device/" + string(uid)
			unmountAtEnd(t, target)
			targets = append(targets, target)
			require.NoError(t, a.prepare(uses(uid, "device")))
			at, err := a.Volume(t.Context(), uses(uid, "device"), "v")
			require.NoError(t, err)
			require.Empty(t, at.Path)
			info, err := os.Stat(at.Device)
			require.NoError(t, err)
			require.Equal(t, os.ModeDevice, info.Mode().Type(), "the container receives a device")
			require.NotEmpty(t, holder(t, target))
		}
		require.Equal(t, 1, d.count("Stage"))
		a.again()
		for _, target := range targets {
			require.NotEmpty(t, holder(t, target))
		}
		require.NoError(t, a.release("1"))
		require.NotEmpty(t, holder(t, targets[1]))
		require.Zero(t, d.count("Unstage"))
		require.NoError(t, a.release("2"))
		require.Empty(t, holder(t, targets[1]))
		synctest.Wait()
		require.Equal(t, 1, d.count("Unstage"))
		require.Empty(t, tree(t, a.layout.Root))
	}, withSecrets, func(a *agent) {
		d.can = csi.Capabilities{Stage: true}
		a.fixture.cfg.Drivers = d
	})
}

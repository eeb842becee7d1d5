package csi_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume/blockdev"
	"github.com/podwright/podwright/volume/csi"
)

// disks publishes a device as real drivers do: mounted on a file.
type disks struct {
	fake
	device string
}

func (d *disks) Driver(string) csi.Driver { return d }

func (d *disks) Publish(_ context.Context, r csi.PublishRequest) error {
	if err := make1(r.TargetPath, false); err != nil {
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

// A real device is held while a pod has it, and let go before the driver is asked to take
// it away.
func TestDeviceIsHeld(t *testing.T) {
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

	d := &disks{device: device}
	w := newWorld(t, func(cfg *csi.Config) { cfg.Drivers = d })
	m := w.args(persistent(v1.PersistentVolumeBlock), "1")
	target := w.layout.Plugin(csi.Name) + "/volumeDevices/publish/pv/1"
	t.Cleanup(func() {
		_ = blockdev.Release(target)
		_ = unix.Unmount(target, unix.MNT_DETACH)
	})
	_, err = w.mount(m)
	require.NoError(t, err)
	loop, err := blockdev.Holder(target)
	require.NoError(t, err)
	require.NotEmpty(t, loop)
	require.NoError(t, w.unmount(m))
	loop, err = blockdev.Holder(target)
	require.NoError(t, err)
	require.Empty(t, loop)
	require.NoError(t, w.Unstage(t.Context(), w.VolumeID(m.Spec)))
	require.Empty(t, tree(t, w.layout.Root))
}

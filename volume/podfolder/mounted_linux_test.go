package podfolder

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What is mounted in the folder of a pod that is gone survives.
func TestMountedVolumesAreNotDeleted(t *testing.T) {
	f := newFolders(t, Config{})
	require.NoError(t, f.Prepare(t.Context(), podOf("1")))
	volume := filepath.Join(f.Volumes("1"), "kubernetes.io~csi", "v")
	require.NoError(t, os.MkdirAll(volume, 0o700))
	if err := unix.Mount("tmpfs", volume, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("cannot mount:", err)
	}
	data := filepath.Join(volume, "data")
	t.Cleanup(func() { _ = unix.Unmount(volume, unix.MNT_DETACH) })
	require.NoError(t, os.WriteFile(data, []byte("precious"), 0o600))
	require.ErrorContains(t, f.Release(t.Context(), "1"), "still mounted: "+volume)
	require.FileExists(t, data)
	require.NoError(t, unix.Unmount(volume, 0))
	require.NoError(t, f.Release(t.Context(), "1"))
	require.NoDirExists(t, f.Pod("1"))
}

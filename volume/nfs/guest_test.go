package nfs_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/nfs"
)

// TestGuestNFS stops a real server: calls end with their context, and the volume is unmounted
// by force.
func TestGuestNFS(t *testing.T) {
	if os.Getenv("PODWRIGHT_GUEST") == "" {
		t.Skip("go run ./examples/tools/testbed/vm test ./volume/nfs")
	}
	export, dir := t.TempDir(), filepath.Join(t.TempDir(), "v")
	command := func(line string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
		require.NoError(t, err, "%s: %s", line, out)
	}
	require.NoError(t, os.Chmod(export, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(export, "f"), []byte("from the server"), 0o644))
	command("systemctl start nfs-server")
	command("exportfs -o rw,no_root_squash,insecure,fsid=1 127.0.0.1:" + export)
	t.Cleanup(func() { _ = exec.Command("exportfs", "-ua").Run() })

	k := &mounts.Kernel{}
	p := nfs.New(nfs.Config{Mounts: k})
	p.ForceAfter(5 * time.Second)
	t.Cleanup(func() { _ = k.Detach(context.Background(), dir) })
	mount := volume.Mount{Spec: inline("127.0.0.1", export), Dir: dir}
	for range 2 {
		_, err := p.Mount(t.Context(), mount)
		require.NoError(t, err)
	}
	point, mounted, err := k.At(t.Context(), dir)
	require.NoError(t, err)
	require.True(t, mounted)
	require.Equal(t, "nfs", point.FSType)
	data, err := os.ReadFile(filepath.Join(dir, "f"))
	require.NoError(t, err)
	require.Equal(t, "from the server", string(data))
	require.NoError(t, p.Unmount(t.Context(), volume.Unmount{Dir: dir}))
	require.NoDirExists(t, dir)
	require.FileExists(t, filepath.Join(export, "f"))

	_, err = p.Mount(t.Context(), mount)
	require.NoError(t, err)
	command("echo 0 > /proc/fs/nfsd/threads")
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	begun := time.Now()
	_, _, err = k.At(short, filepath.Join(dir, "f"))
	t.Log("stat of a file returned after", time.Since(begun), err)
	require.Less(t, time.Since(begun), 10*time.Second)

	unmount, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begun = time.Now()
	err = p.Unmount(unmount, volume.Unmount{Dir: dir})
	for err != nil && unmount.Err() == nil { // the unfinished At above still uses the mount
		time.Sleep(100 * time.Millisecond)
		err = p.Unmount(unmount, volume.Unmount{Dir: dir})
	}
	t.Log("unmounted after", time.Since(begun), err)
	require.NoError(t, err)
	require.NoDirExists(t, dir)

	command("echo 8 > /proc/fs/nfsd/threads")
	_, err = p.Mount(t.Context(), mount)
	require.NoError(t, err, "the server is available again")
	require.NoError(t, p.Unmount(t.Context(), volume.Unmount{Dir: dir}))
	require.Eventually(t, func() bool { return len(k.Hanging()) == 0 }, time.Minute, 100*time.Millisecond)
}

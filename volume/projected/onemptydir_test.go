package projected_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/content"
	"github.com/podwright/podwright/volume/emptydir"
	"github.com/podwright/podwright/volume/internal/testbacking"
	"github.com/podwright/podwright/volume/projected"
)

func onTmpfs(t testing.TB, dir string) bool {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	if errors.Is(err, unix.ENOENT) {
		return false
	}
	require.NoError(t, err)
	return st.Type == unix.TMPFS_MAGIC
}

// V7, V11: on a real tmpfs, of which nothing is left in the end.
func TestOnTmpfs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	r := newRoomOn(t, content.Config{Backing: emptydir.New(emptydir.Config{})})
	m := testbacking.MountOf(t, projected.Name, pod, "v", projection(fromConfigMap, fromAccount))
	m.FSGroup, m.RunAsUser, m.Inside = p(int64(2000)), p(int64(7)), []string{"in/side"}
	mount := func() {
		t.Helper()
		_, err := r.plugin.Mount(t.Context(), m)
		require.NoError(t, err)
		require.True(t, onTmpfs(t, m.Dir))
	}
	mount()
	require.FileExists(t, filepath.Join(filepath.Dir(filepath.Dir(m.StateDir)), "kubernetes.io~empty-dir", "wrapped_v", "ready"))
	require.DirExists(t, filepath.Join(m.Dir, "in/side"))
	require.Equal(t, "0640 t1", testbacking.Files(t, m.Dir)["token"])
	info, err := os.Stat(filepath.Join(m.Dir, "token"))
	require.NoError(t, err)
	st := info.Sys().(*syscall.Stat_t)
	require.Equal(t, []uint32{7, 2000}, []uint32{st.Uid, st.Gid})
	m.Again = true
	mount()
	// Somebody has unmounted it.
	require.NoError(t, unix.Unmount(m.Dir, 0))
	mount()
	require.NoError(t, r.plugin.Unmount(t.Context(), volume.Unmount{Pod: m.Pod.UID, Name: m.Spec.Name, Dir: m.Dir, StateDir: m.StateDir}))
	require.NoDirExists(t, m.Dir)

	// A first mount that fails when all is mounted.
	m.Again, m.FSGroup = false, p(int64(-1))
	_, err = r.plugin.Mount(t.Context(), m)
	require.ErrorContains(t, err, "-1 is no group")
	require.NotErrorIs(t, err, volume.ErrUncertain)
	require.NoDirExists(t, m.Dir)
}

// The contract, on real file systems in memory: all kinds are filled by the same code.
func TestConformanceOnTmpfs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	conform(t, "projected", func() volume.Plugin { return emptydir.New(emptydir.Config{}) })
}

package ownership_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume/ownership"
)

func asRoot(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("PODWRIGHT_REQUIRE_CRI") == "1" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
}

func of(t *testing.T, path string) (group uint32, mode fs.FileMode) {
	info, err := os.Lstat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Gid, info.Mode()
}

// With rights, the kernel does what is asked of it.
func TestAsRoot(t *testing.T) {
	asRoot(t)
	dir, cfg := tree(t), ownership.Config{Group: 2000}
	odd := filepath.Join(dir, "odd")
	require.NoError(t, os.WriteFile(odd, nil, 0o604))
	require.NoError(t, os.Chmod(odd, 0o604))
	require.Equal(t, ownership.Result{Changed: 7}, apply(t, dir, cfg))
	folder := fs.ModeDir | fs.ModeSetgid | 0o770
	for name, mode := range map[string]fs.FileMode{
		".": folder, "a": folder, "a/b": folder,
		"a/link": fs.ModeSymlink | 0o777, "a/b/file": fs.ModeSetuid | 0o660, "odd": 0o664,
	} {
		group, got := of(t, filepath.Join(dir, name))
		require.EqualValues(t, 2000, group, name)
		require.Equal(t, mode, got, name)
	}
	outside, err := os.Readlink(filepath.Join(dir, "a/link"))
	require.NoError(t, err)
	group, mode := of(t, outside)
	require.Zero(t, group)
	require.EqualValues(t, 0o600, mode)
	require.Zero(t, apply(t, dir, cfg).Changed)
}

// What is mounted on a file is not the volume's, either.
func TestMountedFile(t *testing.T) {
	asRoot(t)
	dir, outside := tree(t), filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	at := filepath.Join(dir, "a/b/file")
	if err := syscall.Mount(outside, at, "", syscall.MS_BIND, ""); err != nil {
		t.Skip("mounting: ", err)
	}
	defer func() { require.NoError(t, syscall.Unmount(at, 0)) }()
	require.Equal(t, ownership.Result{Changed: 5}, apply(t, dir, ownership.Config{Group: 2000}))
	group, mode := of(t, outside)
	require.Zero(t, group)
	require.EqualValues(t, 0o600, mode)
}

// A folder that is moved out of the tree leaves the root as it was, for another walk.
func TestMoved(t *testing.T) {
	dir, outside := tree(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600))
	policy, moved := v1.FSGroupChangeOnRootMismatch, recorder{}
	cfg := ownership.Config{Group: 2000, Policy: &policy, Chown: func(fd int, path string, uid, gid int) error {
		if path == "./a/b/file" {
			require.NoError(t, os.Rename(filepath.Join(dir, "a/b"), filepath.Join(outside, "b")))
		}
		return moved.chown(fd, path, uid, gid)
	}}
	_, err := ownership.Apply(t.Context(), dir, cfg)
	require.ErrorContains(t, err, "moved")
	require.NotContains(t, moved, ".")
	_, mode := of(t, filepath.Join(outside, "precious"))
	require.EqualValues(t, 0o600, mode)
	require.False(t, apply(t, dir, cfg).Skipped)
	require.Contains(t, moved, ".")
}

package fs_test

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/internal/fs"
)

func write(t testing.TB, path string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
}

func TestWalk(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/b/f", "a/g", "c/h", "i"} {
		write(t, filepath.Join(dir, name))
	}
	require.NoError(t, os.Symlink("/", filepath.Join(dir, "c", "root")))
	var visited, left []string
	v := fs.Visitor{
		Visit: func(e fs.Entry) error {
			is, err := e.Stat()
			require.NoError(t, err)
			require.Equal(t, e.Type.IsDir(), is.Mode&unix.S_IFMT == unix.S_IFDIR)
			visited = append(visited, e.Name)
			return nil
		},
		Leave: func(e fs.Entry) error { left = append(left, e.Name); return nil },
	}
	require.NoError(t, fs.Walk(t.Context(), dir, v))
	slices.Sort(visited)
	require.Equal(t, []string{"a", "b", "c", "f", "g", "h", "i", "root"}, visited)
	require.Less(t, slices.Index(left, "b"), slices.Index(left, "a"))
	require.Len(t, left, 3)

	odd := errors.New("odd")
	require.ErrorIs(t, fs.Walk(t.Context(), dir, fs.Visitor{Visit: func(fs.Entry) error { return odd }}), odd)
	require.ErrorIs(t, fs.Walk(t.Context(), dir, fs.Visitor{Visit: v.Visit, Leave: func(fs.Entry) error { return odd }}), odd)
	require.ErrorIs(t, fs.Walk(t.Context(), filepath.Join(dir, "x"), v), iofs.ErrNotExist)
	require.ErrorIs(t, fs.Walk(t.Context(), filepath.Join(dir, "c", "root"), v), unix.ENOTDIR)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, fs.Walk(ended, dir, v), context.Canceled)
}

// A folder that is moved away during a walk does not lead the walk out of its tree.
func TestWalkStaysInTreeWhenFolderMoves(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "in", "a", "b", "f"))
	write(t, filepath.Join(dir, "in", "z", "g"))
	write(t, filepath.Join(dir, "out", "precious"))
	err := fs.Walk(t.Context(), filepath.Join(dir, "in"), fs.Visitor{Visit: func(e fs.Entry) error {
		require.NotEqual(t, "precious", e.Name)
		if e.Name == "f" {
			return os.Rename(filepath.Join(dir, "in", "a", "b"), filepath.Join(dir, "out", "b"))
		}
		return nil
	}})
	require.ErrorContains(t, err, "moved")
}

// With Fail, an unreadable folder does not prevent the visit of others.
func TestWalkVisitsOthersOfUnreadableFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/b/f", "a/c/g", "h"} {
		write(t, filepath.Join(dir, name))
	}
	for _, name := range []string{"..", "", "a", "a/c"} {
		require.NoError(t, os.Chmod(filepath.Join(dir, name), 0o755))
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "a/b"), 0))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "a/b"), 0o700) }) // otherwise an ordinary user cannot remove it
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Getuid() == 0 {
		require.NoError(t, unix.Setfsuid(65534)) // root reads all folders
		defer func() { _ = unix.Setfsuid(0) }()
	}
	var visited, left, failed []string
	v := fs.Visitor{
		Visit: func(e fs.Entry) error { visited = append(visited, e.Path()); return nil },
		Leave: func(e fs.Entry) error { left = append(left, e.Path()); return nil },
	}
	require.ErrorIs(t, fs.Walk(t.Context(), dir, v), iofs.ErrPermission)
	visited, left = nil, nil
	v.Fail = func(e fs.Entry, err error) error {
		require.ErrorIs(t, err, iofs.ErrPermission)
		failed = append(failed, e.Path())
		return nil
	}
	require.NoError(t, fs.Walk(t.Context(), dir, v))
	slices.Sort(visited)
	require.Equal(t, []string{"a", "a/b", "a/c", "a/c/g", "h"}, visited)
	slices.Sort(left)
	require.Equal(t, []string{"a", "a/b", "a/c"}, left)
	require.Equal(t, []string{"a/b"}, failed)
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	write(t, precious)
	gone := filepath.Join(dir, "gone")
	write(t, filepath.Join(gone, "a", "b", "f"))
	require.NoError(t, os.Symlink(dir, filepath.Join(gone, "a", "out")))
	for i := range 1500 {
		require.NoError(t, os.WriteFile(filepath.Join(gone, "a", fmt.Sprint(i)), nil, 0o600))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, fs.Remove(ended, gone), context.Canceled)
	require.NoError(t, fs.Remove(t.Context(), gone))
	require.NoDirExists(t, gone)
	require.FileExists(t, precious)
	require.NoError(t, fs.Remove(t.Context(), gone), "a missing path is no error")
	require.NoError(t, fs.Remove(t.Context(), filepath.Join(precious, "x")))

	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(dir, link))
	require.NoError(t, fs.Remove(t.Context(), link))
	require.NoError(t, fs.Remove(t.Context(), precious), "a file")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// Remove deletes a tree that is deeper than the limits of open files and of path lengths.
func TestRemoveOfADeepTree(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	require.NoError(t, os.Mkdir(gone, 0o700))
	fd, err := unix.Open(gone, unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	depth := 2000
	if testing.Short() {
		depth = 1200
	}
	for range depth {
		require.NoError(t, unix.Mkdirat(fd, "d", 0o700))
		below, err := unix.Openat(fd, "d", unix.O_DIRECTORY, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		fd = below
	}
	require.NoError(t, unix.Close(fd))
	require.NoError(t, fs.Remove(t.Context(), gone))
	require.NoDirExists(t, gone)
}

// Remove may fail while other processes write into the tree, but it returns.
func TestRemoveUnderWriters(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	require.NoError(t, os.Mkdir(gone, 0o700))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.MkdirAll(filepath.Join(gone, fmt.Sprint(i%50), "x"), 0o700)
			_ = os.Rename(filepath.Join(gone, fmt.Sprint(i%50)), filepath.Join(gone, "moved"))
		}
	})
	for range 20 {
		_ = fs.Remove(t.Context(), gone)
	}
	close(stop)
	wg.Wait()
	require.NoError(t, fs.Remove(t.Context(), gone))
	require.NoDirExists(t, gone)
}

func TestMountsAreNotEntered(t *testing.T) {
	dir := t.TempDir()
	outside, gone := filepath.Join(dir, "outside"), filepath.Join(dir, "gone")
	precious, point := filepath.Join(outside, "precious"), filepath.Join(gone, "a", "point")
	write(t, precious)
	write(t, filepath.Join(gone, "b", "f"))
	require.NoError(t, os.MkdirAll(point, 0o700))
	if err := unix.Mount(outside, point, "", unix.MS_BIND, ""); err != nil {
		if os.Getenv("PODWRIGHT_REQUIRE_CRI") == "1" {
			t.Fatal(err)
		}
		t.Skip("cannot mount:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH) })
	err := fs.Remove(t.Context(), gone)
	require.ErrorIs(t, err, fs.ErrMounted)
	require.ErrorContains(t, err, "point")
	require.FileExists(t, precious, "also on the same file system")
	require.NoDirExists(t, filepath.Join(gone, "b"))
	require.ErrorIs(t, fs.Remove(t.Context(), point), fs.ErrMounted)
	require.FileExists(t, precious)
	found := false
	require.NoError(t, fs.Walk(t.Context(), point, fs.Visitor{Visit: func(e fs.Entry) error {
		found = found || e.Name == "precious"
		return nil
	}}), "it may begin at a mount")
	require.True(t, found)
	require.NoError(t, unix.Unmount(point, 0))
	require.NoError(t, fs.Remove(t.Context(), gone))
	require.FileExists(t, precious)
}

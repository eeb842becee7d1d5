package ownership_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume/ownership"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder records changes without making them, so that the tests need no privileges.
type recorder map[string]int

func (r recorder) chown(_ int, path string, uid, gid int) error {
	if uid != -1 {
		return errors.New("the owner must not change")
	}
	r[path] = gid
	return nil
}

func tree(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a/b/file"), nil, 0o600))
	require.NoError(t, os.Chmod(filepath.Join(dir, "a/b/file"), 0o600|fs.ModeSetuid))
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "a/link")))
	require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "a/dirlink")))
	return dir
}

func apply(t *testing.T, dir string, cfg ownership.Config) ownership.Result {
	t.Helper()
	result, err := ownership.Apply(t.Context(), dir, cfg)
	require.NoError(t, err)
	return result
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Mode()
}

func TestWalk(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		dir, r := tree(t), recorder{}
		require.Equal(t, ownership.Result{Changed: 6}, apply(t, dir, ownership.Config{Group: 2000, ReadOnly: readOnly, Chown: r.chown}))
		require.Equal(t, recorder{".": 2000, "./a": 2000, "./a/b": 2000, "./a/b/file": 2000, "./a/link": 2000, "./a/dirlink": 2000}, r)
		want := map[string]fs.FileMode{
			".": fs.ModeDir | fs.ModeSetgid | 0o770, "a/b": fs.ModeDir | fs.ModeSetgid | 0o770,
			"a/b/file": fs.ModeSetuid | 0o660, "a/link": 0o600,
		}
		if readOnly {
			want["."], want["a/b"], want["a/b/file"] = fs.ModeDir|fs.ModeSetgid|0o750, fs.ModeDir|fs.ModeSetgid|0o750, fs.ModeSetuid|0o640
		}
		for path, mode := range want { // os.Stat follows the link; its target is unchanged
			require.Equal(t, mode, modeOf(t, filepath.Join(dir, path)), path)
		}
	}
}

// V28: OnRootMismatch skips a volume whose root has the group and the modes.
func TestOnRootMismatch(t *testing.T) {
	dir, r := tree(t), recorder{}
	policy, own := v1.FSGroupChangeOnRootMismatch, int64(os.Getgid())
	cfg := ownership.Config{Group: own, Policy: &policy, Chown: r.chown}
	require.False(t, apply(t, dir, cfg).Skipped, "the root has the group but not the modes")
	wrong := filepath.Join(dir, "a/b/file")
	require.NoError(t, os.Chmod(wrong, 0o600))

	require.Equal(t, ownership.Result{Skipped: true}, apply(t, dir, cfg))
	require.Equal(t, fs.FileMode(0o600), modeOf(t, wrong), "the mode stays unchanged")

	cfg.Policy = nil
	require.Equal(t, 1, apply(t, dir, cfg).Changed, "policy Always changes only incorrect files")
	cfg.Group++
	cfg.Policy = &policy
	require.False(t, apply(t, dir, cfg).Skipped)
	require.Len(t, r, 6)
}

// A failure of one file does not affect other files or the volume.
func TestErrorsOfEntries(t *testing.T) {
	dir := tree(t)
	var failed []string
	result, err := ownership.Apply(t.Context(), dir, ownership.Config{
		Group: 2000,
		Chown: func(_ int, path string, _, _ int) error {
			if path == "./a/b/file" {
				return syscall.EIO
			}
			return nil
		},
		OnError: func(path string, err error) {
			require.ErrorIs(t, err, syscall.EIO)
			failed = append(failed, path)
		},
	})
	require.NoError(t, err)
	require.Equal(t, 1, result.Failed)
	require.ErrorIs(t, result.Err, syscall.EIO)
	require.Equal(t, []string{"./a/b/file"}, failed)
}

func TestApplyFails(t *testing.T) {
	dir := tree(t)
	_, err := ownership.Apply(t.Context(), filepath.Join(dir, "nowhere"), ownership.Config{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = ownership.Apply(t.Context(), filepath.Join(dir, "a/dirlink"), ownership.Config{})
	require.ErrorIs(t, err, syscall.ENOTDIR)
	_, err = ownership.Apply(t.Context(), dir, ownership.Config{Group: -1})
	require.ErrorContains(t, err, "fsGroup: -1")
	require.ErrorIs(t, ownership.ApplyFile(filepath.Join(dir, "a/link"), ownership.Config{}), syscall.ELOOP)
	ctx, stop := context.WithCancelCause(t.Context())
	calls := 0
	_, err = ownership.Apply(ctx, dir, ownership.Config{Group: 2000, Chown: func(int, string, int, int) error {
		calls++
		stop(errors.New("enough"))
		return nil
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "enough")
	require.LessOrEqual(t, calls, 2)
	_, err = ownership.Apply(ctx, dir, ownership.Config{Group: 2000})
	require.ErrorIs(t, err, context.Canceled)
}

func TestOne(t *testing.T) {
	dir, r := tree(t), recorder{}
	require.NoError(t, ownership.ApplyFile(dir, ownership.Config{Group: 2000, Chown: r.chown}))
	require.Equal(t, recorder{dir: 2000}, r)
	if os.Getuid() == 0 { // root only: the same with the real Chown
		require.Equal(t, ownership.Result{Changed: 6}, apply(t, dir, ownership.Config{Group: 2000}))
		group, _ := of(t, filepath.Join(dir, "a/b/file"))
		require.EqualValues(t, 2000, group)
	}
}

// A long walk reports its progress.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var progress []int
		_, err := ownership.Apply(t.Context(), tree(t), ownership.Config{
			Group:      2000,
			Chown:      func(int, string, int, int) error { time.Sleep(31 * time.Second); return nil },
			OnProgress: func(n int) { progress = append(progress, n) },
		})
		require.NoError(t, err)
		require.Equal(t, []int{1, 3, 5}, progress)
	})
}

// A container that swaps a folder for a link during the walk cannot lead it out of the volume.
func TestRace(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	victim := filepath.Join(outside, "file")
	require.NoError(t, os.WriteFile(victim, nil, 0o600))
	swap := filepath.Join(dir, "swap")
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			_ = os.Mkdir(swap, 0o755)
			_ = os.WriteFile(filepath.Join(swap, "file"), nil, 0o600)
			_ = os.RemoveAll(swap)
			_ = os.Symlink(outside, swap)
			_ = os.Remove(swap)
			_ = os.Symlink(victim, swap)
			_ = os.Remove(swap)
		}
	}()
	seen := 0
	rounds := 3000
	if testing.Short() {
		rounds = 1000
	}
	for round := 0; round < rounds || seen == round; round++ { // until the folder was seen once
		_, err := ownership.Apply(t.Context(), dir, ownership.Config{Group: 2000, Chown: func(fd int, path string, _, _ int) error {
			at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(at, dir), "%s is %s", path, at)
			seen++
			return nil
		}})
		require.NoError(t, err)
	}
	stop.Store(true)
	<-done
	require.Equal(t, fs.FileMode(0o600), modeOf(t, victim))
	require.Zero(t, modeOf(t, outside)&fs.ModeSetgid)
}

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

// A file that is mounted over a file of the volume stays unchanged.
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

// If a folder moves out of the tree, the root stays unchanged, so that a later walk repeats.
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

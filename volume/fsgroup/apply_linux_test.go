package fsgroup

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func asRoot(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("PODWRIGHT_REQUIRE_CRI") == "1" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
}

func of(t *testing.T, path string) (group uint32, mode os.FileMode) {
	info, err := os.Lstat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Gid, info.Mode()
}

// volumeOf has a file, a folder with a program that has setuid, and a link that leads out.
func volumeOf(t *testing.T) (dir, outside string) {
	top := t.TempDir()
	dir, outside = filepath.Join(top, "v"), filepath.Join(top, "outside")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "d"), 0o700))
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o604))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "d", "p"), nil, 0o700))
	require.NoError(t, os.Chmod(filepath.Join(dir, "d", "p"), 0o700|os.ModeSetuid))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "d", "link")))
	return dir, outside
}

func TestApply(t *testing.T) {
	asRoot(t)
	for _, readOnly := range []bool{false, true} {
		dir, outside := volumeOf(t)
		require.NoError(t, Apply(t.Context(), dir, Change{Group: 2000, ReadOnly: readOnly}))
		want := map[string]os.FileMode{
			"": 0o770 | os.ModeDir | os.ModeSetgid, "d": 0o770 | os.ModeDir | os.ModeSetgid,
			"f": 0o664, "d/p": 0o760 | os.ModeSetuid, "d/link": 0o777 | os.ModeSymlink,
		}
		if readOnly {
			want[""], want["d"] = 0o750|os.ModeDir|os.ModeSetgid, 0o750|os.ModeDir|os.ModeSetgid
			want["f"], want["d/p"] = 0o644, 0o740|os.ModeSetuid
		}
		for name, mode := range want {
			group, got := of(t, filepath.Join(dir, name))
			require.EqualValues(t, 2000, group, name)
			if name == "" {
				got, mode = got&^0o005, mode&^0o005
			}
			require.Equal(t, mode, got, name)
		}
		group, mode := of(t, outside)
		require.Zero(t, group)
		require.EqualValues(t, 0o600, mode)
	}
}

// V28: OnRootMismatch looks at the folder only, which is given to the group last.
func TestOnRootMismatch(t *testing.T) {
	asRoot(t)
	policy := v1.FSGroupChangeOnRootMismatch
	dir, _ := volumeOf(t)
	change := Change{Group: 2000, Policy: &policy}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Apply(ended, dir, change), context.Canceled)
	group, _ := of(t, dir)
	require.Zero(t, group, "the walk has not come to its end")

	require.NoError(t, Apply(t.Context(), dir, change))
	wrong := filepath.Join(dir, "f")
	require.NoError(t, os.Lchown(wrong, -1, 7))
	require.NoError(t, Apply(t.Context(), dir, change))
	group, _ = of(t, wrong)
	require.EqualValues(t, 7, group, "it stays wrong")
	require.NoError(t, os.Chmod(dir, 0o770))
	require.NoError(t, Apply(t.Context(), dir, change), "without setgid it is a mismatch")
	group, _ = of(t, wrong)
	require.EqualValues(t, 2000, group)
	require.ErrorIs(t, Apply(t.Context(), dir+"x", change), os.ErrNotExist)
	require.ErrorIs(t, Apply(t.Context(), dir+"x", Change{}), os.ErrNotExist)
}

func TestProgress(t *testing.T) {
	asRoot(t)
	dir, _ := volumeOf(t)
	var said []int
	w := worker{Change: Change{Group: 1, Progress: func(n int) { said = append(said, n) }}, due: time.Now().Add(-time.Second)}
	for range 600 {
		require.NoError(t, w.visit(tree.Entry{Dir: -1, Name: "missing"}))
	}
	require.Equal(t, []int{256}, said)
	require.NotEmpty(t, w.failed)
	require.LessOrEqual(t, len(w.failed), maxErrors)
	require.NoError(t, Apply(t.Context(), dir, w.Change))
}

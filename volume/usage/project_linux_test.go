package usage

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Track fails with ErrNoProjects on a tmpfs that supports projects without counts, or not at
// all.
func TestWithoutAccounts(t *testing.T) {
	var p Projects
	err := p.Track(t.Context(), "/dev/shm")
	if err != nil {
		require.ErrorIs(t, err, ErrNoProjects)
		require.ErrorContains(t, err, "/dev/shm")
	}
	require.ErrorIs(t, p.Track(t.Context(), filepath.Join(t.TempDir(), "none")), os.ErrNotExist)
	_, _, ok := projectUsage(t.TempDir())
	require.False(t, ok)
	_, _, ok = projectUsage(filepath.Join(t.TempDir(), "none"))
	require.False(t, ok)
}

// TestGuestProjects counts on ext4. It runs in a guest, because the host's kernel may lack
// quotas.
func TestGuestProjects(t *testing.T) {
	if os.Getenv("PODWRIGHT_GUEST") == "" {
		t.Skip("go run ./examples/tools/testbed/vm test ./volume/usage")
	}
	at := t.TempDir()
	command := func(line string) {
		t.Helper()
		out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", line).CombinedOutput()
		require.NoError(t, err, "%s: %s", line, out)
	}
	image := filepath.Join(t.TempDir(), "image")
	command("dd if=/dev/zero of=" + image + " bs=1M count=64 && mkfs.ext4 -q -O project,quota " + image + " && mount -o loop,prjquota " + image + " " + at)
	t.Cleanup(func() { command("umount " + at) })
	folder := func(name string, files int) string {
		dir := filepath.Join(at, name)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
		for i := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "sub", strings.Repeat("x", i+1)), make([]byte, 8192), 0o600))
		}
		return dir
	}
	m := New(Config{})
	var p Projects
	for _, name := range []string{"a", "b"} {
		require.NoError(t, os.Mkdir(filepath.Join(at, name), 0o755))
		for range 2 {
			require.NoError(t, p.Track(t.Context(), filepath.Join(at, name)))
		}
	}
	a, b := folder("a", 5), folder("b", 2)
	command("sync")
	u, err := m.Measure(t.Context(), a, 0)
	require.NoError(t, err)
	require.EqualValues(t, 7, u.Files, "the folder, sub and its files")
	require.GreaterOrEqual(t, u.Bytes, int64(5*8192))
	_, _, ok := projectUsage(a)
	require.True(t, ok)
	u, err = m.Measure(t.Context(), b, 0)
	require.NoError(t, err)
	require.EqualValues(t, 4, u.Files)

	// Folders below a counted folder, and folders that were not empty, are walked.
	_, _, ok = projectUsage(filepath.Join(a, "sub"))
	require.False(t, ok, "the folder inherits the project of its parent")
	full := folder("full", 3)
	require.NoError(t, p.Track(t.Context(), full))
	_, _, ok = projectUsage(full)
	require.False(t, ok)
	u, err = m.Measure(t.Context(), full, 0)
	require.NoError(t, err)
	require.EqualValues(t, 5, u.Files)

	// Another agent keeps counted folders and uses free ids for new ones.
	var next Projects
	require.NoError(t, next.Track(t.Context(), a))
	fresh := filepath.Join(at, "fresh")
	require.NoError(t, os.Mkdir(fresh, 0o755))
	require.NoError(t, next.Track(t.Context(), fresh))
	command("sync")
	bytes, files, ok := projectUsage(fresh)
	require.True(t, ok)
	require.EqualValues(t, 1, files)
	require.Less(t, bytes, int64(8192))
}

package stats

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestHost(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o700))
	for name, size := range map[string]int{"a/empty": 0, "a/small": 5, "a/half": usual / 2, "a/full": usual, "more": usual + 1, "large": 10*usual + 3} {
		want := []byte(strings.Repeat("x", size))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), want, 0o600))
		got, err := fs.ReadFile(Host(dir), name)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), name)
	}
	require.NoError(t, fstest.TestFS(Host(dir), "a/empty", "a/full", "more", "large"))
	_, err := fs.ReadFile(Host(dir), "none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	var path *fs.PathError
	require.ErrorAs(t, err, &path)
	require.Equal(t, "none", path.Path)
	_, err = fs.ReadFile(Host(dir), "../"+filepath.Base(dir)+"/more")
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, err = fs.ReadFile(Host(dir), "a")
	require.Error(t, err, "a folder")
	require.NoError(t, os.Symlink("large", filepath.Join(dir, "link")))
	link, err := fs.ReadLink(Host(dir), "link")
	require.NoError(t, err)
	require.Equal(t, "large", link)
}

// The kernel's own files are the same in both ways.
func TestHostOfTheKernel(t *testing.T) {
	for _, name := range []string{"version", "sys/kernel/pid_max", "self/status", "cpuinfo"} {
		want, err := fs.ReadFile(os.DirFS("/proc"), name)
		require.NoError(t, err)
		got, err := fs.ReadFile(Host("/proc"), name)
		require.NoError(t, err)
		require.InDelta(t, len(want), len(got), 16, name)
	}
	m, err := ReadMachine(Host("/proc"))
	require.NoError(t, err)
	require.Empty(t, m.Unread)
	require.NotNil(t, m.Busy)
	n, err := ReadNetwork(Host("/proc"), "self")
	require.NoError(t, err)
	require.NotNil(t, n)
}

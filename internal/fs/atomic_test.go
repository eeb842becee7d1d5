package fs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteReplacesWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	require.NoError(t, WriteAtomic(path, []byte("one"), 0o600))
	require.NoError(t, WriteAtomic(path, []byte("two"), 0o640))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "two", string(got))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	requireOnly(t, dir, "state")
}

func TestWriteFailureLeavesTheOldFileAlone(t *testing.T) {
	dir := t.TempDir()
	require.ErrorContains(t, WriteAtomic(filepath.Join(dir, "missing", "state"), nil, 0o600), "missing")
	// A folder at the path: the rename fails and the temporary file is removed.
	path := filepath.Join(dir, "folder")
	require.NoError(t, os.MkdirAll(filepath.Join(path, "child"), 0o755))
	require.Error(t, WriteAtomic(path, []byte("x"), 0o600))
	requireOnly(t, dir, "folder")
}

// The temporary files of killed writers are removed, of this path only.
func TestRemoveTemporary(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	require.NoError(t, RemoveTemporary(filepath.Join(dir, "missing", "state")))
	for _, name := range []string{"state", ".state.tmp-12", ".state.tmp-3"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, RemoveTemporary(filepath.Join(dir, "other")))
	require.FileExists(t, filepath.Join(dir, ".state.tmp-12"))
	require.NoError(t, RemoveTemporary(path))
	requireOnly(t, dir, "state")
}

func requireOnly(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, name, entries[0].Name())
}

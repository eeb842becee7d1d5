package stats

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

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

// Host and os.DirFS read the same files of the running kernel.
func TestHostOfTheKernel(t *testing.T) {
	for _, name := range []string{"version", "sys/kernel/pid_max", "self/status", "cpuinfo"} {
		want, err := fs.ReadFile(os.DirFS("/proc"), name)
		require.NoError(t, err)
		got, err := fs.ReadFile(Host("/proc"), name)
		require.NoError(t, err)
		require.InEpsilon(t, len(want), len(got), 0.05, name) // the speeds of many processors change
	}
	version := V1
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		version = V2
	}
	for _, open := range []func(string) fs.FS{os.DirFS, Host} {
		m, err := ReadMachine(open("/proc"))
		require.NoError(t, err)
		require.Empty(t, m.Unread)
		require.Positive(t, *m.Memory)
		require.Positive(t, m.Processors)
		require.Positive(t, *m.Busy)
		require.True(t, m.Boot.Before(time.Now()))
		n, err := ReadNetwork(open("/proc"), "self")
		require.NoError(t, err)
		require.NotNil(t, n)
	}
	u := read(t, os.DirFS("/sys/fs/cgroup"), version, "/")
	require.Positive(t, *u.CPU.Total)
	require.Empty(t, u.Unread)
}

// Host and os.DirFS read the same cgroup. Its folders stay open until they are removed or unused.
func TestFoldersOfCgroups(t *testing.T) {
	for version, files := range map[Version]map[string]string{V1: detailsOfV1, V2: detailsOfV2} {
		root := filepath.Join(t.TempDir(), "root")
		require.NoError(t, os.CopyFS(root, tree(files)))
		want := details(t, os.DirFS(root), version, "/a")
		fsys := Host(root)
		r := reader(t, fsys, version)
		same := func() {
			got, err := r.Details("/a")
			require.NoError(t, err)
			want.Time = got.Time
			require.Equal(t, want, got)
		}
		same()
		open := descriptors(t, root)
		require.Positive(t, open)
		same()
		require.Equal(t, open, descriptors(t, root))
		memory := filepath.Join(root, map[Version]string{V1: "memory/a/memory.usage_in_bytes", V2: "a/memory.current"}[version])
		require.NoError(t, os.WriteFile(memory, []byte("x"), 0o600))
		got, err := r.Details("/a")
		require.NoError(t, err)
		require.Nil(t, got.Memory.Usage)
		require.Len(t, got.Unread, 1)
		require.ErrorContains(t, got.Unread[0], "\"x\" is not a number")

		require.NoError(t, os.RemoveAll(root))
		_, err = r.Read("/a")
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoError(t, os.CopyFS(root, tree(files)))
		same()
		require.NoError(t, os.RemoveAll(root))
		require.NoError(t, os.CopyFS(root, tree(files)))
		same() // a new folder of the same name, at once

		k := fsys.(host).folderCache
		k.swept = time.Now().Add(-2 * sweeps)
		_, err = r.Read("/a")
		require.NoError(t, err)
		require.NotEmpty(t, k.folders, "those that are read stay")
		for _, f := range k.folders {
			f.used = k.swept.Add(-time.Second)
		}
		k.swept = time.Now().Add(-2 * sweeps)
		for _, f := range k.folders {
			f.used = k.swept.Add(-time.Second)
		}
		_, err = r.Read("/none")
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Empty(t, k.folders)
		k.most = 0
		same() // without open folders
		require.Empty(t, k.folders)
	}
	_, err := reader(t, Host(t.TempDir()), V2).Read("/")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func descriptors(t testing.TB, folder string) (n int) {
	open, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, fd := range open {
		if path, err := os.Readlink(fd); err == nil && strings.HasPrefix(path, folder) {
			n++
		}
	}
	return n
}

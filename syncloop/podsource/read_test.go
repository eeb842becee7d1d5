//go:build unix

package podsource

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/internal/fs"
)

// A file that seems unchanged is not read again, and every way of changing a file is noticed.
func TestUnchangedFilesAreNotRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	old := time.Now().Add(-time.Hour)
	put(t, path, manifestOf("a", "x"))
	require.NoError(t, os.Chtimes(path, old, old))
	m := newMerger(t, MergerConfig{})
	f, err := NewFileSource(FileConfig{Path: dir, Merger: m.Merger, Decoder: testDecoder()})
	require.NoError(t, err)
	f.reader.reader.Youngest = 0
	image := func() string {
		f.scan(time.Time{}, ignoreEvent)
		return f.history.files[path].good.Spec.Containers[0].Image
	}
	require.Equal(t, "x", image())
	reads := func() bool { return !f.read().files[0].same }
	if runtime.GOOS != "linux" {
		t.Skip("the file system provides no stamps")
	}
	require.False(t, reads(), "unchanged files are not read")

	// The clock of the file system is coarse, so young files have no stamp. Here they have one, so
	// each version must be younger than the previous one.
	var last stamp
	place := func(at, image string) {
		for before := last; last == before; {
			put(t, at, manifestOf("a", image))
			require.NoError(t, os.Chtimes(at, old, old))
			info, err := os.Stat(at)
			require.NoError(t, err)
			last = fs.StampOf(info, 0, time.Now())
		}
	}
	for name, change := range map[string]func(){
		"in place, same size, time put back": func() { place(path, "y") },
		"replaced, same size, same time": func() {
			place(path+".new", "y")
			require.NoError(t, os.Rename(path+".new", path))
		},
	} {
		place(path, "x")
		require.Equal(t, "x", image(), name)
		require.False(t, reads(), name)
		change()
		require.True(t, reads(), name)
		require.Equal(t, "y", image(), name)
	}

	f.hints.Add(fs.Hint{Path: path})
	require.True(t, reads(), "a hint about the file")
	require.False(t, reads())
	f.hints.Add(fs.Hint{})
	require.True(t, reads(), "a hint without path")
	require.False(t, reads())
	f.lastFullRead = time.Now().Add(-fullReadPeriod)
	require.True(t, reads(), "all files are read after fullReadPeriod")
	require.False(t, reads())
	f.reader.reader.Youngest = time.Hour
	require.True(t, reads(), "two versions of a young file may have the same times")
}

// A file that is not read because it is being written is read later, although it has not changed
// since.
func TestBusyFilesAreReadAgain(t *testing.T) {
	l := newHistory()
	s := stamp{Inode: 1, Size: 3}
	r := reading{path: "a", data: []byte("a 1"), stamp: s}
	busy := func(string, time.Time) time.Duration { return time.Second }
	l.apply(snapshot{files: []reading{r}}, busy, time.Unix(0, 0))
	require.Zero(t, l.stampOf("a"))
	l.apply(snapshot{files: []reading{r}}, complete, time.Unix(1, 0))
	require.Equal(t, s, l.stampOf("a"))
	r.data, r.stamp = []byte("a 2"), stamp{Inode: 2, Size: 3}
	l.apply(snapshot{files: []reading{r}}, busy, time.Unix(2, 0))
	require.NotEqual(t, r.stamp, l.stampOf("a"))
	l.apply(snapshot{files: []reading{{path: "a", problem: "cannot be read"}}}, complete, time.Unix(3, 0))
	require.Zero(t, l.stampOf("a"))
}

// Hidden files and names between two # are no manifests.
func TestIgnoredName(t *testing.T) {
	for name, want := range map[string]bool{
		".a": true, "..data": true, "#a#": true, "##": true,
		"a": false, "a.yaml": false, "#": false, "#a": false, "a#": false, "a.": false,
	} {
		require.Equal(t, want, ignoredName(name), name)
	}
}

// For a path that is neither a folder nor a file, the existing files are unknown.
func TestListSpecialPaths(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	require.NoError(t, os.WriteFile(file, []byte("12345"), 0o600))
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for path, want := range map[string]snapshot{
		filepath.Join(dir, "none"):   {problem: "does not exist", missing: true},
		filepath.Join(file, "below"): {problem: "cannot be read: not a directory", unknown: true},
		pipe:                         {problem: "is a named pipe, neither a folder nor a file", unknown: true},
	} {
		require.Equal(t, listing{snapshot: want}, list(path))
	}
}

// The same is true for a folder that cannot be listed, here because it was deleted while it was
// open.
func TestListFails(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	dir := filepath.Join(t.TempDir(), "folder")
	require.NoError(t, os.Mkdir(dir, 0o700))
	open, err := os.Open(dir)
	require.NoError(t, err)
	defer open.Close()
	require.NoError(t, os.Remove(dir))
	l := list(fmt.Sprint("/proc/self/fd/", open.Fd()))
	require.Equal(t, listing{snapshot: snapshot{problem: "cannot be read: no such file or directory", unknown: true}}, l)
}

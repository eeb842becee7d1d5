package podsource

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A file that seems unchanged is not read again, and no way of changing one goes
// unnoticed.
func TestUnchangedFilesAreNotRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	old := time.Now().Add(-time.Hour)
	put(t, path, manifestOf("a", "x"))
	require.NoError(t, os.Chtimes(path, old, old))
	m := newMerger(t, MergerConfig{})
	f, err := NewFileSource(FileConfig{Path: dir, Merger: m.Merger, Decoder: testDecoder()})
	require.NoError(t, err)
	f.reader.youngest = 0
	image := func() string {
		_, err := f.look(time.Time{})
		require.NoError(t, err)
		return f.history.files[path].good.Spec.Containers[0].Image
	}
	require.Equal(t, "x", image())
	reads := func() bool { return !f.read().files[0].same }
	if runtime.GOOS != "linux" {
		t.Skip("files have no stamps here")
	}
	require.False(t, reads(), "nothing has changed")

	// The clock of the file system is coarse, which is why young files have no
	// stamp; here they have, so each version has to be younger than the one before.
	var last stamp
	place := func(at, image string) {
		for before := last; last == before; {
			put(t, at, manifestOf("a", image))
			require.NoError(t, os.Chtimes(at, old, old))
			info, err := os.Stat(at)
			require.NoError(t, err)
			last = stampOf(info, 0, time.Now())
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

	f.hints.add(Hint{Path: path})
	require.True(t, reads(), "something was said about it")
	require.False(t, reads())
	f.hints.add(Hint{})
	require.True(t, reads(), "something was said, perhaps about it")
	require.False(t, reads())
	f.readAll = time.Now().Add(-trust)
	require.True(t, reads(), "times are not believed for ever")
	require.False(t, reads())
	f.reader.youngest = time.Hour
	require.True(t, reads(), "two versions of a young file may have the same times")

	f.reader.youngest = 0
	put(t, path, strings.Repeat("bad: [", 3))
	require.NoError(t, os.Chtimes(path, old, old))
	f.hints.add(Hint{Path: path, State: Written})
	image()
	require.False(t, reads(), "what is bad and unchanged stays bad")
	_, err = f.look(time.Time{})
	require.NoError(t, err)
	require.NotEmpty(t, f.history.files[path].bad)
}

// A file that is left alone because it is being written was not taken, so it is
// read again although it has not changed since.
func TestBusyFilesAreReadAgain(t *testing.T) {
	l := newHistory()
	s := stamp{inode: 1, size: 3}
	r := reading{path: "a", data: []byte("a 1"), stamp: s}
	busy := func(string, time.Time) time.Duration { return time.Second }
	l.apply(snapshot{files: []reading{r}}, busy, time.Unix(0, 0))
	require.Zero(t, l.stampOf("a"))
	l.apply(snapshot{files: []reading{r}}, complete, time.Unix(1, 0))
	require.Equal(t, s, l.stampOf("a"))
	r.data, r.stamp = []byte("a 2"), stamp{inode: 2, size: 3}
	l.apply(snapshot{files: []reading{r}}, busy, time.Unix(2, 0))
	require.NotEqual(t, r.stamp, l.stampOf("a"))
	l.apply(snapshot{files: []reading{{path: "a", problem: "cannot be read"}}}, complete, time.Unix(3, 0))
	require.Zero(t, l.stampOf("a"))
}

// Hidden files, and what lies between two #, are no manifests.
func TestIgnoredName(t *testing.T) {
	for name, want := range map[string]bool{
		".a": true, "..data": true, "#a#": true, "##": true,
		"a": false, "a.yaml": false, "#": false, "#a": false, "a#": false, "a.": false,
	} {
		require.Equal(t, want, ignoredName(name), name)
	}
}

// What is neither a folder nor a file says nothing of which files there are, and what has
// become something else since it was looked at is not read.
func TestListOddPaths(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	require.NoError(t, os.WriteFile(file, []byte("12345"), 0o600))
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	rd := reader{maxSize: 4}
	for path, want := range map[string]snapshot{
		filepath.Join(dir, "none"):   {problem: "does not exist", missing: true},
		filepath.Join(file, "below"): {problem: "cannot be read: not a directory", unknown: true},
		pipe:                         {problem: "is a named pipe, neither a folder nor a file", unknown: true},
	} {
		require.Equal(t, listing{snapshot: want}, rd.list(path))
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "cannot be read: no such file or directory",
		pipe:                       "is a named pipe, not a file",
		file:                       "has 5 bytes, more than the limit of 4",
	} {
		r := reading{path: path}
		rd.regular(&r, time.Now())
		require.Equal(t, reading{path: path, problem: want}, r)
	}
	rd.maxSize = 5
	r := reading{path: file}
	rd.regular(&r, time.Now())
	require.Equal(t, "12345", string(r.data))
	require.Empty(t, r.problem)
	for mode, want := range map[fs.FileMode]string{
		fs.ModeDir: "a folder", fs.ModeNamedPipe: "a named pipe", fs.ModeSocket: "a socket", fs.ModeDevice: "a device", fs.ModeIrregular: "something else",
	} {
		require.Equal(t, want, describe(mode|0o600))
	}
}

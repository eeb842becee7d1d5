package fs

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Read refuses irregular and large files with a reason and without blocking.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"good": "text", "full": strings.Repeat("x", 10), "large": strings.Repeat("x", 11), "empty": ""} {
		require.NoError(t, os.WriteFile(path(name), []byte(text), 0o600))
	}
	require.NoError(t, os.Mkdir(path("folder"), 0o700))
	require.NoError(t, syscall.Mkfifo(path("pipe"), 0o600))
	require.NoError(t, os.Symlink("nowhere", path("broken")))
	require.NoError(t, os.Symlink("good", path("link")))
	require.NoError(t, os.Symlink("loop", path("loop")))
	socket, err := net.Listen("unix", path("socket"))
	require.NoError(t, err)
	defer socket.Close()

	rd := Reader{MaxSize: 10}
	for name, want := range map[string]string{
		"good": "text", "full": strings.Repeat("x", 10), "empty": "", "link": "text",
	} {
		r := rd.Read(path(name), Stamp{})
		require.Empty(t, r.Problem, name)
		require.Equal(t, want, string(r.Data), name)
		require.False(t, r.Same || r.Vanished, name)
	}
	for name, want := range map[string]string{
		"large": "has 11 bytes, more than the limit of 10", "folder": "is a folder, not a file",
		"pipe": "is a named pipe, not a file", "socket": "is a socket, not a file",
		"broken": "is a symbolic link to a missing file", "loop": "cannot be read: too many levels of symbolic links",
	} {
		require.Equal(t, Reading{Problem: want, Dangling: name == "broken"}, rd.Read(path(name), Stamp{}), name)
	}
	require.Equal(t, Reading{Problem: "is a device, not a file"}, rd.Read("/dev/null", Stamp{}))
	require.Equal(t, Reading{Vanished: true}, rd.Read(path("none"), Stamp{}))
	// A read of these would block, or take content away from other readers.
	for _, odd := range []string{"/proc/kmsg", "/proc/self/mem", "/dev/tty", "/dev/zero"} {
		require.Empty(t, rd.Read(odd, Stamp{}).Data, odd)
	}
}

// A version with an equal stamp is not read again. A recently changed file has no stamp.
func TestReadAgain(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("files have no stamps here")
	}
	path := filepath.Join(t.TempDir(), "a")
	old := time.Now().Add(-time.Hour)
	put := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chtimes(path, old, old))
	}
	rd := Reader{MaxSize: 10}
	put("a")
	first := rd.Read(path, Stamp{})
	require.NotZero(t, first.Stamp)
	again := rd.Read(path, first.Stamp)
	require.Equal(t, Reading{Same: true, Stamp: first.Stamp, ModTime: first.ModTime}, again)
	put("bc")
	require.Equal(t, "bc", string(rd.Read(path, first.Stamp).Data))
	rd.Youngest = time.Minute // it was changed just now, in spite of its modification time
	require.Zero(t, rd.Read(path, Stamp{}).Stamp)
}

// A file whose type or size changed after the check is not read.
func TestReadAfterChangeOfType(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	require.NoError(t, os.WriteFile(file, []byte("12345"), 0o600))
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	rd := Reader{MaxSize: 4}
	_, err := rd.regular(filepath.Join(dir, "none"), time.Now())
	require.Equal(t, "cannot be read: no such file or directory", Bare(err))
	for path, want := range map[string]string{
		pipe: "is a named pipe, not a file",
		file: "has 5 bytes, more than the limit of 4",
	} {
		r, err := rd.regular(path, time.Now())
		require.NoError(t, err)
		require.Equal(t, Reading{Problem: want}, r)
	}
	rd.MaxSize = 5
	r, err := rd.regular(file, time.Now())
	require.NoError(t, err)
	require.Equal(t, "12345", string(r.Data))
	require.Empty(t, r.Problem)
	for mode, want := range map[fs.FileMode]string{
		fs.ModeDir: "a folder", fs.ModeNamedPipe: "a named pipe", fs.ModeSocket: "a socket", fs.ModeDevice: "a device", fs.ModeIrregular: "something else",
	} {
		require.Equal(t, want, Describe(mode|0o600))
	}
}

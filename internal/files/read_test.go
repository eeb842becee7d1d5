package files

import (
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

// What is no file, or too large, is refused without a wait, and says why.
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
		"broken": "is a symbolic link to nothing", "loop": "cannot be read: too many levels of symbolic links",
	} {
		require.Equal(t, Reading{Problem: want}, rd.Read(path(name), Stamp{}), name)
	}
	require.Equal(t, Reading{Problem: "is a device, not a file"}, rd.Read("/dev/null", Stamp{}))
	require.Equal(t, Reading{Vanished: true}, rd.Read(path("none"), Stamp{}))
}

// A version that is known is not read again. A young one is not known.
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
	rd.Youngest = time.Minute // it was changed just now, whatever its time says
	require.Zero(t, rd.Read(path, Stamp{}).Stamp)
}

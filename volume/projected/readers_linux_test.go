package projected

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// V5: readers at full speed see files of one version only, during a thousand updates.
func TestReadersSeeOneVersion(t *testing.T) {
	dir := inMemory(t)
	long := strings.Repeat("x", 8<<10)
	payload := func(i int) payload { return files("a", fmt.Sprint(i, long), "b/c", fmt.Sprint(i, long)) }
	write(t, dir, payload(0))
	var stop atomic.Bool
	var wg sync.WaitGroup
	var whole atomic.Int64
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				ok, err := readPair(dir)
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					whole.Add(1)
				}
			}
		})
	}
	swaps := 1000
	if testing.Short() {
		swaps = 200
	}
	for i := 0; !t.Failed() && (i < swaps || whole.Load() < 100); i++ {
		_, err := writePayload(dir, payload(i+1), writeOptions{})
		require.NoError(t, err)
	}
	stop.Store(true)
	wg.Wait()
}

// The link to the newest version always exists, because a writer may be killed at any time.
func TestDataLinkAlwaysExists(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, files("a", "1"))
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	require.NoError(t, err)
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_DELETE)
	require.NoError(t, err)
	write(t, dir, files("a", "2"))
	events := make([]byte, 4096)
	n, err := unix.Read(fd, events)
	require.NoError(t, err, "the folder of the previous version was removed")
	require.NotContains(t, string(events[:n]), dataLink+"\x00")
}

// readPair reads two files of one version. ok is false if the version was removed during the
// read.
func readPair(dir string) (ok bool, err error) {
	root, err := os.OpenRoot(filepath.Join(dir, dataLink))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // the version was replaced and removed
	}
	if err != nil {
		return false, err
	}
	defer root.Close()
	a, errA := root.ReadFile("a")
	b, errB := root.ReadFile("b/c")
	if errors.Is(errA, fs.ErrNotExist) || errors.Is(errB, fs.ErrNotExist) {
		return false, nil
	}
	if err := errors.Join(errA, errB); err != nil {
		return false, err
	}
	if string(a) != string(b) {
		return false, fmt.Errorf("a mix: %.10q and %.10q", a, b)
	}
	return true, nil
}

func tmpfs(t testing.TB, options string) string {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skip("mounting: ", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// inMemory returns a folder in memory if there is one, because a disk is too slow for this
// test.
func inMemory(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "content")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := tmpfs(t, "size=1m")
	old := files("a", "old", "b", strings.Repeat("o", 300<<10))
	write(t, dir, old)
	for range 3 {
		_, err := writePayload(dir, files("a", "new", "b", strings.Repeat("n", 300<<10), "c", strings.Repeat("n", 600<<10)), writeOptions{})
		require.ErrorIs(t, err, syscall.ENOSPC)
		check(t, dir, old)
	}
	write(t, dir, files("a", "new"))
	// A crash on a full disk does not prevent the next version.
	_, _ = attempt(dir, files("a", "newer", "b", strings.Repeat("n", 900<<10)), 4, true)
	write(t, dir, files("a", "newest", "b", strings.Repeat("n", 600<<10)))
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := tmpfs(t, "size=1m")
	old := files("a", "old")
	write(t, dir, old)
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err := writePayload(dir, files("a", "new"), writeOptions{})
	require.ErrorIs(t, err, syscall.EROFS)
	check(t, dir, old)
	require.False(t, write(t, dir, old), "correct content is not rewritten")
}

func FuzzWrite(f *testing.F) {
	f.Add("a", "b/c", "x", byte(3))
	f.Add("a/b", "a", "", byte(0))
	f.Add("d", "d/e/f", "y", byte(9))
	f.Fuzz(func(t *testing.T, one, two, text string, at byte) {
		dir := t.TempDir()
		for _, p := range []payload{files(one, text), files(two, text, "last", text), files(one, text+"x", two, text)} {
			var before payload
			if _, err := os.Lstat(filepath.Join(dir, dataLink)); err == nil {
				before = seen(t, dir)
			}
			clean, err := p.check()
			if err != nil {
				_, err = writePayload(dir, p, writeOptions{})
				require.Error(t, err)
				require.Equal(t, before, seen(t, dir))
				continue
			}
			_, _ = attempt(dir, p, int(at%24), at >= 128)
			if got := seen(t, dir); !equal(got, before) {
				require.Equal(t, clean, got)
			}
			if _, err := writePayload(dir, p, writeOptions{}); err == nil {
				check(t, dir, clean)
			}
		}
	})
}

func equal(a, b payload) bool {
	return maps.EqualFunc(a, b, func(x, y payloadFile) bool { return string(x.Data) == string(y.Data) })
}

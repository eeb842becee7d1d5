package subpath

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// withAndWithoutOpenat2 runs a test with openat2 and without it, as on older kernels.
func withAndWithoutOpenat2(t *testing.T, test func(t *testing.T, walkOnly bool)) {
	t.Run("openat2", func(t *testing.T) { test(t, false) })
	t.Run("walk", func(t *testing.T) { test(t, true) })
}

// volumeIn creates a volume with links of all kinds beside a folder outside the volume.
func volumeIn(t *testing.T) (vol string) {
	top := t.TempDir()
	vol = filepath.Join(top, "vol")
	for _, dir := range []string{"vol/d/e", "vol/target", "outside", "volume"} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, dir), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(top, "outside", "secret"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(vol, "d", "f"), nil, 0o600))
	for name, target := range map[string]string{
		"in": "d/e", "up": "d/../target", "abs": vol + "/d", "root": vol, "dangling": "d/new/deep", "..data": "d",
		"out": "../outside", "absout": top + "/outside", "etc": "/etc", "sibling": top + "/volume",
		"d/back": "../../outside", "loop": "loop", "absup": vol + "/../outside", "chain": "in/../back",
		"magic": "/proc/self/root",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(vol, name)))
	}
	return vol
}

func openIn(t *testing.T, vol, path string, walkOnly bool) (string, error) {
	o, err := openVolume(vol)
	require.NoError(t, err)
	defer o.close()
	o.walkOnly = walkOnly
	fd, err := o.open(path)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	real, err := os.Readlink(pathOf(fd))
	require.NoError(t, err)
	return strings.TrimPrefix(real, vol), nil
}

func TestOpen(t *testing.T) {
	withAndWithoutOpenat2(t, func(t *testing.T, walkOnly bool) {
		vol := volumeIn(t)
		for path, want := range map[string]string{
			"d": "/d", "d/e/": "/d/e", "./d//f": "/d/f", ".": "", "in": "/d/e", "up": "/target", "abs/e": "/d/e",
			"root/d": "/d", "..data/f": "/d/f", "dangling": "/d/new/deep", "new/a/b": "/new/a/b", "target/ünï code\n": "/target/ünï code\n",
			"target/..x": "/target/..x",
		} {
			got, err := openIn(t, vol, path, walkOnly)
			require.NoError(t, err, path)
			require.Equal(t, want, got, path)
		}
		for path, want := range map[string]error{
			"out": ErrOutside, "out/secret": ErrOutside, "absout": ErrOutside, "etc/passwd": ErrOutside, "sibling": ErrOutside,
			"d/back": ErrOutside, "d/back/new": ErrOutside, "chain": ErrOutside, "absup": ErrOutside, "loop": unix.ELOOP,
			"d/f/x": unix.ENOTDIR, "magic/etc": ErrOutside, strings.Repeat("a", 256): unix.ENAMETOOLONG,
		} {
			_, err := openIn(t, vol, path, walkOnly)
			require.ErrorIs(t, err, want, path)
		}
		require.NoFileExists(t, filepath.Join(vol, "..", "outside", "new"))
		require.NoDirExists(t, filepath.Join(vol, "..", "outside", "new"))
	})
}

// V16: new folders get the mode of the volume's folder, independent of the umask.
func TestModeOfNewFolders(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	withAndWithoutOpenat2(t, func(t *testing.T, walkOnly bool) {
		for _, mode := range []os.FileMode{0o777, 0o750, 0o770 | os.ModeSetgid, 0o777 | os.ModeSticky} {
			vol := t.TempDir()
			require.NoError(t, os.Chmod(vol, mode))
			_, err := openIn(t, vol, "a/b", walkOnly)
			require.NoError(t, err)
			for _, made := range []string{"a", "a/b"} {
				info, err := os.Stat(filepath.Join(vol, made))
				require.NoError(t, err)
				require.Equal(t, mode|os.ModeDir, info.Mode())
			}
		}
	})
}

func TestBounds(t *testing.T) {
	vol := volumeIn(t)
	for name, times := range map[string]int{"few": maxLinks - 1, "many": maxLinks} { // plus the link itself
		require.NoError(t, os.Symlink(strings.Repeat("root/", times)+"d", filepath.Join(vol, name)))
	}
	got, err := openIn(t, vol, "few", true)
	require.NoError(t, err)
	require.Equal(t, "/d", got)
	_, err = openIn(t, vol, "many", true)
	require.ErrorIs(t, err, unix.ELOOP)
	_, err = openIn(t, vol, strings.Repeat("n/", maxDepth), true)
	require.NoError(t, err)
	_, err = openIn(t, vol, strings.Repeat("n/", maxDepth+1), true)
	require.ErrorContains(t, err, "deep")
	_, err = openVolume(filepath.Join(vol, "d", "f"))
	require.ErrorIs(t, err, unix.ENOTDIR)
	_, err = openVolume(filepath.Join(vol, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// raceTime is the duration of a race. Without a check the first escape takes 50 ms.
const raceTime = time.Second / 2

// V15: while a container swaps folders and links as fast as possible, each opened file is
// inside the volume and no file is created outside.
func TestRaceOfOpen(t *testing.T) {
	withAndWithoutOpenat2(t, func(t *testing.T, walkOnly bool) {
		vol := volumeIn(t)
		outside := filepath.Join(filepath.Dir(vol), "outside")
		stop := swap(t, vol, outside)
		defer stop()
		opened, refused := 0, 0
		for end := time.Now().Add(raceTime); time.Now().Before(end) || opened == 0 || refused == 0; {
			o, err := openVolume(vol)
			require.NoError(t, err)
			o.walkOnly = walkOnly
			for _, path := range []string{"x/y/secret", "x/y", "x/y/new/z"} {
				fd, err := o.open(path)
				if err != nil {
					refused++
					continue
				}
				real, err := os.Readlink(pathOf(fd))
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(real, vol+"/"), "%s leads to %s", path, real)
				require.NoError(t, unix.Close(fd))
				opened++
			}
			o.close()
			_ = os.RemoveAll(filepath.Join(vol, "x", "y", "new"))
		}
		t.Log("opened", opened, "refused", refused)
		require.NoDirExists(t, filepath.Join(outside, "y", "new"))
		require.NoDirExists(t, filepath.Join(outside, "new"))
	})
}

// swap exchanges folders of a volume with links that lead out, until stop is called.
func swap(t *testing.T, vol, outside string) (stop func()) {
	t.Helper()
	for _, dir := range []string{"x/y", "z"} {
		require.NoError(t, os.MkdirAll(filepath.Join(vol, dir), 0o777))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(outside, "y"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "y", "secret"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(vol, "x", "y", "secret"), nil, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(vol, "lx")))
	require.NoError(t, os.Symlink("../../outside/y", filepath.Join(vol, "ly")))
	exchange := func(a, b string) {
		_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(vol, a), unix.AT_FDCWD, filepath.Join(vol, b), unix.RENAME_EXCHANGE)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			exchange("x", "lx")
			exchange("x", "lx")
			exchange("x/y", "ly")
			exchange("x/y", "ly")
		}
	})
	return func() { close(done); wg.Wait() }
}

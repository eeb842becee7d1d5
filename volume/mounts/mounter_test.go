package mounts_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/volume/mounts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMounter runs the contract of Mounter on Kernel and on Memory.
func TestMounter(t *testing.T) {
	t.Run("Kernel", func(t *testing.T) { suite(t, root(t)) })
	t.Run("Memory", func(t *testing.T) { suite(t, &mounts.Memory{}) })
}

func suite(t *testing.T, m mounts.Mounter) {
	for name, test := range map[string]func(*testing.T, mounts.Mounter, string){
		"tmpfs":                      testTmpfs,
		"stacked":                    testStacked,
		"bind":                       testBind,
		"missing target":             testMissing,
		"ended context":              testEnded,
		"names":                      testNames,
		"remount":                    testRemount,
		"busy with a mount":          testBusy,
		"links are not mount points": testLinks,
	} {
		t.Run(name, func(t *testing.T) { test(t, m, folder(t, m)) })
	}
}

func tmpfs(dir string, options ...string) mounts.Mount {
	return mounts.Mount{Source: "tmpfs", Target: dir, FSType: "tmpfs", Options: append([]string{"size=1048576"}, options...)}
}

func testTmpfs(t *testing.T, m mounts.Mounter, dir string) {
	at(t, m, dir, false)
	require.NoError(t, m.Unmount(t.Context(), dir), "a missing mount is no error")

	require.NoError(t, m.Mount(t.Context(), tmpfs(dir, "ro")))
	p := at(t, m, dir, true)
	require.Equal(t, mounts.Point{Path: dir, FSType: "tmpfs", ReadOnly: true, Size: 1 << 20, PageSize: 4096}, p)
	require.NoError(t, m.Unmount(t.Context(), dir))

	require.NoError(t, m.Mount(t.Context(), tmpfs(dir)))
	file := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	at(t, m, file, false)
	require.NoError(t, m.Unmount(t.Context(), dir))
	require.NoFileExists(t, file)
	require.DirExists(t, dir)
}

func testStacked(t *testing.T, m mounts.Mounter, dir string) {
	require.NoError(t, m.Mount(t.Context(), tmpfs(dir)))
	require.NoError(t, m.Mount(t.Context(), tmpfs(dir, "ro")))
	points := below(t, m, dir)
	require.Len(t, points, 2)
	require.Equal(t, []bool{false, true}, []bool{points[0].ReadOnly, points[1].ReadOnly}, "the oldest first")
	require.Contains(t, points[1].Options, "ro")
	for want := 1; want >= 0; want-- {
		require.NoError(t, m.Unmount(t.Context(), dir))
		require.Len(t, below(t, m, dir), want)
	}
}

func testBind(t *testing.T, m mounts.Mounter, dir string) {
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	require.NoError(t, os.Mkdir(source, 0o700))
	require.NoError(t, os.Mkdir(target, 0o700))
	require.NoError(t, os.Symlink("source", filepath.Join(dir, "link")))
	require.NoError(t, m.Mount(t.Context(), mounts.Mount{Source: filepath.Join(dir, "link"), Target: target, Options: []string{"bind", "ro"}}))
	p := at(t, m, target, true, "also of the same file system")
	require.True(t, p.ReadOnly)

	file, onto := filepath.Join(dir, "f"), filepath.Join(dir, "onto")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.WriteFile(onto, nil, 0o600))
	require.NoError(t, m.Mount(t.Context(), mounts.Mount{Source: file, Target: onto, Options: []string{"bind"}}))
	at(t, m, onto, true, "a file")
	require.NoError(t, m.Detach(t.Context(), onto))
	require.NoError(t, m.Unmount(t.Context(), target))
	require.Empty(t, below(t, m, dir))
}

func testMissing(t *testing.T, m mounts.Mounter, dir string) {
	gone := filepath.Join(dir, "gone")
	_, _, err := m.At(t.Context(), gone)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, m.Mount(t.Context(), tmpfs(gone)), fs.ErrNotExist)
	require.ErrorContains(t, m.Mount(t.Context(), tmpfs(gone)), gone)
	require.ErrorIs(t, m.Mount(t.Context(), mounts.Mount{Source: gone, Target: dir, Options: []string{"bind"}}), fs.ErrNotExist)
	require.NoError(t, m.Unmount(t.Context(), gone))
	require.Empty(t, below(t, m, gone))
}

func testEnded(t *testing.T, m mounts.Mounter, dir string) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, m.Mount(ctx, tmpfs(dir)), context.Canceled)
	require.ErrorIs(t, m.Unmount(ctx, dir), context.Canceled)
	_, err := m.Below(ctx, dir)
	require.ErrorIs(t, err, context.Canceled)
	_, mounted, err := m.At(ctx, dir)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, mounted)
}

func testNames(t *testing.T, m mounts.Mounter, dir string) {
	for _, name := range []string{"with space", "tab\tand\nline", `back\040slash\`, "#x", "ünïcode", "comma,equals="} {
		point := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(point, 0o700))
		require.NoError(t, m.Mount(t.Context(), tmpfs(point)))
		points := below(t, m, point)
		require.Len(t, points, 1)
		require.Equal(t, point, points[0].Path)
		require.NoError(t, m.Unmount(t.Context(), point))
	}
	sibling := filepath.Join(dir, "with")
	require.NoError(t, os.Mkdir(sibling, 0o700))
	require.NoError(t, m.Mount(t.Context(), tmpfs(filepath.Join(dir, "with space"))))
	require.Empty(t, below(t, m, sibling), "a sibling with the same prefix is not below")
	require.NotEmpty(t, below(t, m, "/"))
}

func testRemount(t *testing.T, m mounts.Mounter, dir string) {
	require.NoError(t, m.Mount(t.Context(), tmpfs(dir)))
	require.NoError(t, m.Mount(t.Context(), mounts.Mount{Source: "tmpfs", Target: dir, FSType: "tmpfs", Options: []string{"remount", "size=2097152"}}))
	p, _, err := m.At(t.Context(), dir)
	require.NoError(t, err)
	require.EqualValues(t, 2<<20, p.Size)
	require.Len(t, below(t, m, dir), 1)
}

func testBusy(t *testing.T, m mounts.Mounter, dir string) {
	inner := filepath.Join(dir, "inner")
	require.NoError(t, m.Mount(t.Context(), tmpfs(dir)))
	require.NoError(t, os.Mkdir(inner, 0o700))
	require.NoError(t, m.Mount(t.Context(), tmpfs(inner)))
	require.ErrorContains(t, m.Unmount(t.Context(), dir), dir)
	require.NoError(t, m.Unmount(t.Context(), inner))
	require.NoError(t, m.Unmount(t.Context(), dir))
}

func testLinks(t *testing.T, m mounts.Mounter, dir string) {
	point, link := filepath.Join(dir, "point"), filepath.Join(dir, "link")
	require.NoError(t, os.Mkdir(point, 0o700))
	require.NoError(t, os.Symlink(point, link))
	require.NoError(t, m.Mount(t.Context(), tmpfs(point)))
	at(t, m, link, false)
	require.NoError(t, m.Unmount(t.Context(), link))
	at(t, m, point, true)
}

func TestMemoryFaults(t *testing.T) {
	errInjected := errors.New("odd")
	dir := t.TempDir()
	var failing string
	m := &mounts.Memory{Unknown: []string{"noswap"}, Fault: func(_ context.Context, call, path string) error {
		require.Equal(t, dir, path)
		if call == failing {
			return errInjected
		}
		return nil
	}}
	require.ErrorIs(t, m.Mount(t.Context(), tmpfs(dir, "noswap")), errors.ErrUnsupported)
	for call, try := range map[string]func() error{
		"Mount":   func() error { return m.Mount(t.Context(), tmpfs(dir)) },
		"Unmount": func() error { return m.Unmount(t.Context(), dir) },
		"Detach":  func() error { return m.Detach(t.Context(), dir) },
		"At":      func() error { _, _, err := m.At(t.Context(), dir); return err },
		"Below":   func() error { _, err := m.Below(t.Context(), dir); return err },
	} {
		failing = call
		require.ErrorIs(t, try(), errInjected)
	}
	require.Empty(t, m.Calls())
	failing = ""
	require.NoError(t, m.Mount(t.Context(), tmpfs(dir)))
	require.Equal(t, []string{"Mount " + dir}, m.Calls())
}

func ExampleMemory() {
	dir, err := os.MkdirTemp("", "mounts")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx, m := context.Background(), &mounts.Memory{}
	err = m.Mount(ctx, mounts.Mount{Source: "tmpfs", Target: dir, FSType: "tmpfs", Options: []string{"size=65536", "ro"}})
	fmt.Println(err)
	p, mounted, err := m.At(ctx, dir)
	fmt.Println(filepath.Base(dir) == filepath.Base(p.Path), p.FSType, p.Size, p.ReadOnly, mounted, err)
	// Output:
	// <nil>
	// true tmpfs 65536 true true <nil>
}

// root returns a Kernel. It skips the test if mounts are not permitted, or fails it on machines
// that require them.
func root(t testing.TB) *mounts.Kernel {
	t.Helper()
	k, dir := &mounts.Kernel{}, t.TempDir()
	err := k.Mount(t.Context(), mounts.Mount{Source: "tmpfs", Target: dir, FSType: "tmpfs", Options: []string{"size=64k"}})
	if err != nil {
		if os.Getenv("PODWRIGHT_REQUIRE_CRI") == "1" {
			t.Fatal(err)
		}
		t.Skip("cannot mount:", err)
	}
	cleanup(t, k, dir)
	return k
}

func cleanup(t testing.TB, m mounts.Mounter, dir string) {
	t.Cleanup(func() {
		points, _ := m.Below(context.Background(), dir)
		for i := range points {
			_ = m.Detach(context.Background(), points[len(points)-1-i].Path)
		}
	})
}

func folder(t testing.TB, m mounts.Mounter) string {
	dir := t.TempDir()
	cleanup(t, m, dir)
	return dir
}

// at returns the mount at a path and requires that it exists if want is true.
func at(t testing.TB, m mounts.Mounter, path string, want bool, msg ...any) mounts.Point {
	t.Helper()
	p, mounted, err := m.At(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, want, mounted, msg...)
	return p
}

func below(t testing.TB, m mounts.Mounter, path string) []mounts.Point {
	t.Helper()
	points, err := m.Below(t.Context(), path)
	require.NoError(t, err)
	return points
}

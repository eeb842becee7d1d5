package projected

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func list(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(t testing.TB, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(data)
}

func target(t testing.TB, dir string) string {
	t.Helper()
	to, err := os.Readlink(filepath.Join(dir, dataLink))
	require.NoError(t, err)
	return to
}

// files returns a payload from alternating paths and contents.
func files(pairs ...string) payload {
	p := payload{}
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i]] = payloadFile{Data: []byte(pairs[i+1]), Mode: 0o644}
	}
	return p
}

func write(t testing.TB, dir string, p payload) bool {
	t.Helper()
	changed, err := writePayload(dir, p, writeOptions{})
	require.NoError(t, err)
	check(t, dir, p)
	return changed
}

// check requires that a folder has exactly the payload.
func check(t testing.TB, dir string, p payload) {
	t.Helper()
	names := map[string]bool{dataLink: true, target(t, dir): true}
	for name, f := range p {
		names[top(name)] = true
		require.Equal(t, string(f.Data), read(t, dir, name))
		to, err := os.Readlink(filepath.Join(dir, top(name)))
		require.NoError(t, err)
		require.Equal(t, "..data/"+top(name), to)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(names)), list(t, dir))
}

// V3: changed content is a new version; equal content changes no file.
func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	require.True(t, write(t, dir, files("a", "1", "b/c", "2", "b/d/e", "3")))
	first := target(t, dir)
	require.True(t, version.MatchString(first), first)
	info, err := os.Stat(filepath.Join(dir, first))
	require.NoError(t, err)
	require.Equal(t, fs.ModeDir|0o755, info.Mode())

	require.False(t, write(t, dir, files("a", "1", "b/c", "2", "b/d/e", "3")))
	require.Equal(t, first, target(t, dir))

	for _, p := range []payload{
		files("a", "2", "b/c", "2", "b/d/e", "3"), // changed content
		files("a", "2", "b/c", "2"),               // a removed file
		files("a", "2", "b/c", "2", "z", ""),      // an added file
		files("a/x", "2", "b", "2", "z", ""),      // a folder for a file, and the reverse
		files(),
		files("a", "2"),
	} {
		before := target(t, dir)
		require.True(t, write(t, dir, p))
		require.NotEqual(t, before, target(t, dir))
	}
}

// V4: missing or wrong links are repaired without a new version.
func TestMissingLinks(t *testing.T) {
	dir := t.TempDir()
	p := files("a", "1", "b/c", "2")
	write(t, dir, p)
	before := target(t, dir)
	require.NoError(t, os.Remove(filepath.Join(dir, "a")))
	require.NoError(t, os.Remove(filepath.Join(dir, "b")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "b")))
	require.NoError(t, os.Symlink("..data/gone", filepath.Join(dir, "gone")))
	require.False(t, write(t, dir, p))
	require.Equal(t, before, target(t, dir))
}

// V9: files have their modes, independent of the umask.
func TestModes(t *testing.T) {
	dir := t.TempDir()
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	p := payload{"a": {Mode: 0o440}, "d/b": {Mode: 0o400}, "c": {Mode: 0o777}}
	write(t, dir, p)
	modes := func() (out []fs.FileMode) {
		for _, name := range []string{"a", "d/b", "c", "d"} {
			info, err := os.Stat(filepath.Join(dir, name))
			require.NoError(t, err)
			out = append(out, info.Mode())
		}
		return out
	}
	want := []fs.FileMode{0o440, 0o400, 0o777, fs.ModeDir | 0o755}
	require.Equal(t, want, modes())
	require.False(t, write(t, dir, payload{"a": {Mode: 0o644}, "d/b": {Mode: 0o644}, "c": {Mode: 0o644}}))
	require.Equal(t, want, modes(), "a change of modes alone rewrites no file, as upstream")
}

// A damaged folder is repaired, even if foreign files block a path.
func TestChangedFilesAreRestored(t *testing.T) {
	p := files("a", "1", "b/c", "2")
	file := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	folder := func(path string) error { return os.MkdirAll(filepath.Join(path, "a"), 0o700) }
	pipe := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	link := func(to string) func(string) error { return func(path string) error { return os.Symlink(to, path) } }
	nothing := func(string) error { return nil }
	const at = "VERSION"
	for name, damage := range map[string]struct {
		path string
		make func(path string) error
	}{
		"missing file":            {at + "/a", nothing},
		"file emptied":            {at + "/a", file},
		"same size":               {at + "/a", func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }},
		"additional file":         {at + "/x", file},
		"additional empty folder": {at + "/x", func(path string) error { return os.Mkdir(path, 0o700) }},
		"folder for file":         {at + "/a", folder},
		"file for folder":         {at + "/b", file},
		"link for file":           {at + "/a", link("/etc/passwd")},
		"pipe for file":           {at + "/a", pipe},
		"missing version":         {at, nothing},
		"no data link":            {dataLink, nothing},
		"link leads out":          {dataLink, link("/etc")},
		"data is a folder":        {dataLink, folder},
		"data is a file":          {dataLink, file},
		"temporary is a folder": {newDataLink, func(path string) error {
			return errors.Join(os.Remove(filepath.Join(filepath.Dir(path), dataLink)), folder(path))
		}},
		"folder for link": {"a", folder},
		"file for link":   {"b", file},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, p)
			path := filepath.Join(dir, strings.Replace(damage.path, at, target(t, dir), 1))
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, damage.make(path))
			write(t, dir, p)
			require.FileExists(t, "/etc/passwd")
		})
	}
}

// Folders and links of others stay, such as mount points of other volumes.
func TestForeignFilesStay(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "inside/deep"), 0o755))
	require.NoError(t, os.Symlink("elsewhere", filepath.Join(dir, "link")))
	_, err := writePayload(dir, files("a", "1"), writeOptions{})
	require.NoError(t, err)
	_, err = writePayload(dir, files("b", "1"), writeOptions{})
	require.NoError(t, err)
	require.DirExists(t, filepath.Join(dir, "inside/deep"))
	require.ElementsMatch(t, []string{"inside", "link", "b", dataLink, target(t, dir)}, list(t, dir))
}

func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	owner := int64(7)
	var order []string
	o := writeOptions{
		Prepare: func(at string) error {
			_, err := os.Lstat(filepath.Join(dir, dataLink))
			require.ErrorIs(t, err, fs.ErrNotExist, "the version is not visible yet")
			order = append(order, "prepare "+read(t, at, "a"))
			return nil
		},
		Chown: func(f *os.File, uid int) error {
			order = append(order, fmt.Sprint("chown ", filepath.Base(f.Name()), " ", uid))
			return nil
		},
	}
	_, err := writePayload(dir, payload{"a": {Data: []byte("1"), Mode: 0o600, Owner: &owner}, "b": {Mode: 0o600}}, o)
	require.NoError(t, err)
	require.Equal(t, []string{"chown a 7", "prepare 1"}, order)

	o.Prepare = func(string) error { return syscall.EPERM }
	_, err = writePayload(dir, files("a", "2"), o)
	require.ErrorIs(t, err, syscall.EPERM)
	require.Equal(t, "1", read(t, dir, "a"))
	require.Len(t, list(t, dir), 4, "the new version was removed")
}

var errCrash = errors.New("crash")

// seen returns the files that a reader with an open version finds.
func seen(t testing.TB, dir string) payload {
	t.Helper()
	root, err := os.OpenRoot(filepath.Join(dir, dataLink))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	defer root.Close()
	out := payload{}
	require.NoError(t, fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		data, err := root.ReadFile(name)
		out[name] = payloadFile{Data: data, Mode: int32(info.Mode().Perm())}
		return err
	}))
	return out
}

// attempt calls writePayload, which fails or crashes at step number at. It returns the name of
// that step.
func attempt(dir string, p payload, at int, crash bool) (step string, err error) {
	defer func() {
		if r := recover(); r != nil && r != errCrash {
			panic(r)
		}
	}()
	n := 0
	_, err = writePayload(dir, p, writeOptions{step: func(what string) error {
		if n++; n-1 != at {
			return nil
		}
		if step = what; crash {
			panic(errCrash)
		}
		return syscall.EIO
	}})
	return step, err
}

// After a failure or crash at any step, a reader sees either the complete old version or the
// complete new one, and the next writePayload repairs the folder.
func TestCrashAndFaultAtEveryStep(t *testing.T) {
	before, after := files("a", "old", "b/c", "old", "gone", "old"), files("a", "new", "b/c", "new", "n/m", "new")
	for _, crash := range []bool{false, true} {
		var steps []string
		for at := 0; ; at++ {
			dir := t.TempDir()
			write(t, dir, before)
			step, err := attempt(dir, after, at, crash)
			if step == "" {
				require.NoError(t, err)
				check(t, dir, after)
				break
			}
			steps = append(steps, step)
			if !crash {
				require.ErrorIs(t, err, syscall.EIO, step)
			}
			swapped := slices.Contains(steps[:len(steps)-1], "swap")
			want := before
			if swapped {
				want = after
			}
			require.Equal(t, want, seen(t, dir), step)
			if !crash && !swapped {
				check(t, dir, before) // no remains
			}
			write(t, dir, after) // as a restarted agent does
			write(t, dir, before)
		}
		require.Len(t, steps, 15)
	}
}

// The same holds for the first version, also after two crashes in a row.
func TestCrashOfTheFirst(t *testing.T) {
	p := files("a", "1", "b/c", "2")
	for at := 0; ; at++ {
		dir := t.TempDir()
		first, _ := attempt(dir, p, at, true)
		if first == "" {
			break
		}
		for again := 0; ; again++ {
			if step, _ := attempt(dir, p, again, true); step == "" {
				break
			}
			if got := seen(t, dir); got != nil {
				require.Equal(t, p, got)
			}
		}
		check(t, dir, p)
	}
}

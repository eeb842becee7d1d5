package subpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/mounts"
)

type fixture struct {
	*SubPaths
	mounts mounts.Mounter
	layout volume.Layout
	vol    string
	at     volume.SubPath
}

func newFixture(t *testing.T, m mounts.Mounter) *fixture {
	layout := volume.Layout{Root: t.TempDir()}
	p, err := New(Config{Layout: layout, Mounts: m})
	require.NoError(t, err)
	w := &fixture{SubPaths: p, mounts: m, layout: layout, vol: volumeIn(t)}
	w.at = volume.SubPath{PodUID: "u", Container: "c", Index: 2, Volume: "v", VolumePath: w.vol, Path: "d"}
	t.Cleanup(func() {
		points, _ := m.Below(context.Background(), layout.Root)
		for i := range points {
			_ = m.Detach(context.Background(), points[len(points)-1-i].Path)
		}
	})
	return w
}

func (w *fixture) prepare(t *testing.T, path string) string {
	t.Helper()
	w.at.Path = path
	got, err := w.Prepare(t.Context(), w.at)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(w.layout.Root, "pods/u/volume-subpaths/v/c/2"), got)
	points, err := w.mounts.Below(t.Context(), got)
	require.NoError(t, err)
	require.Len(t, points, 1, "mounted once")
	return got
}

func real(t *testing.T) *mounts.Kernel {
	if os.Getuid() != 0 {
		if os.Getenv("PODWRIGHT_REQUIRE_CRI") == "1" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
	return &mounts.Kernel{}
}

func TestPrepare(t *testing.T) {
	w := newFixture(t, real(t))
	target := w.prepare(t, "d")
	require.FileExists(t, filepath.Join(target, "f"))
	require.Equal(t, target, w.prepare(t, "d"), "the mount stays")
	require.FileExists(t, filepath.Join(w.prepare(t, "root/d"), "f"))
	require.NoError(t, os.WriteFile(filepath.Join(w.vol, "d", "f"), []byte("content"), 0o600))

	target = w.prepare(t, "d/f")
	data, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "content", string(data), "a file replaces the folder")
	require.NoError(t, os.Rename(filepath.Join(w.vol, "d", "f"), filepath.Join(w.vol, "d", "old")))
	require.NoError(t, os.WriteFile(filepath.Join(w.vol, "d", "f"), []byte("new"), 0o600))
	data, err = os.ReadFile(w.prepare(t, "d/f"))
	require.NoError(t, err)
	require.Equal(t, "new", string(data), "a new file of that name")
	w.prepare(t, "new/folder")
	require.DirExists(t, filepath.Join(w.vol, "new", "folder"))

	w.at.Path = "out"
	_, err = w.Prepare(t.Context(), w.at)
	require.ErrorIs(t, err, ErrOutside)

	require.NoError(t, w.Release(t.Context(), w.at))
	require.NoError(t, w.Release(t.Context(), w.at))
	require.NoDirExists(t, w.layout.SubPaths("u"))
	require.DirExists(t, filepath.Join(w.vol, "new", "folder"))
}

// On a read-only volume Prepare mounts existing paths and fails for missing ones.
func TestReadOnlyVolume(t *testing.T) {
	k := real(t)
	w := newFixture(t, k)
	ro := filepath.Join(t.TempDir(), "ro")
	require.NoError(t, os.Mkdir(ro, 0o700))
	require.NoError(t, k.Mount(t.Context(), mounts.Mount{Source: w.vol, Target: ro, Options: []string{"bind", "ro"}}))
	t.Cleanup(func() { _ = k.Detach(context.Background(), ro) })
	w.at.VolumePath = ro
	target := w.prepare(t, "d/e")
	require.ErrorIs(t, os.Mkdir(filepath.Join(target, "x"), 0o700), unix.EROFS)
	w.at.Path = "missing"
	_, err := w.Prepare(t.Context(), w.at)
	require.ErrorIs(t, err, unix.EROFS)
}

// Prepare and ReleasePod work after a kill -9 that left folders, a mount point, or one or more
// mounts.
func TestCrashes(t *testing.T) {
	k := real(t)
	for name, leave := range map[string]func(t *testing.T, w *fixture, target string){
		"folders": func(t *testing.T, _ *fixture, target string) {
			require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o750))
		},
		"point":   func(t *testing.T, _ *fixture, target string) { require.NoError(t, os.MkdirAll(target, 0o750)) },
		"file":    func(t *testing.T, _ *fixture, target string) { require.NoError(t, makePoint(target, false)) },
		"mounted": func(t *testing.T, w *fixture, _ string) { w.prepare(t, "d") },
		"other":   func(t *testing.T, w *fixture, _ string) { w.prepare(t, "d/f") },
		"stacked": func(t *testing.T, w *fixture, target string) {
			for range 3 {
				require.NoError(t, makePoint(target, true))
				require.NoError(t, k.Mount(t.Context(), mounts.Mount{Source: filepath.Join(w.vol, "d/e"), Target: target, Options: []string{"bind"}}))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, k)
			target := w.target(w.at)
			leave(t, w, target)
			require.FileExists(t, filepath.Join(w.prepare(t, "d"), "f"))
			require.NoError(t, w.ReleasePod(t.Context(), "u"))
			for _, release := range []func() error{
				func() error { return w.Release(t.Context(), w.at) },
				func() error { return w.ReleasePod(t.Context(), "u") },
			} {
				leave(t, w, target)
				require.NoError(t, release())
				require.NoDirExists(t, target)
				require.NoFileExists(t, target)
			}
			require.NoDirExists(t, w.layout.SubPaths("u"))
			require.FileExists(t, filepath.Join(w.vol, "d", "f"))
		})
	}
}

// Release does not remove files below a path that is not mounted.
func TestReleaseIsNeverRecursive(t *testing.T) {
	w := newFixture(t, &mounts.Memory{})
	w.prepare(t, "d")
	w.at.Volume = "w"
	_, err := w.Prepare(t.Context(), w.at)
	require.NoError(t, err)
	precious := filepath.Join(w.target(w.at), "precious")
	require.NoError(t, os.WriteFile(precious, nil, 0o600))
	require.ErrorContains(t, w.ReleasePod(t.Context(), "u"), "not empty")
	require.FileExists(t, precious)
	require.NoDirExists(t, filepath.Join(w.layout.SubPaths("u"), "v"), "other mount points are removed")
	require.NoError(t, os.Remove(precious))
	require.NoError(t, w.ReleasePod(t.Context(), "u"))
	require.NoError(t, w.ReleasePod(t.Context(), "u"))
	require.NoDirExists(t, w.layout.SubPaths("u"))
}

// OnCreated is called once for a missing sub path.
func TestOnCreated(t *testing.T) {
	w := newFixture(t, &mounts.Memory{})
	var created []volume.SubPath
	w.cfg.OnCreated = func(s volume.SubPath) { created = append(created, s) }
	for _, path := range []string{"d", "d/f", "in", "new/folder", "new/folder", "new"} {
		w.at.Path = path
		_, err := w.Prepare(t.Context(), w.at)
		require.NoError(t, err)
	}
	w.at.Path = "new/folder"
	require.Equal(t, []volume.SubPath{w.at}, created)
}

func TestFaults(t *testing.T) {
	errInjected := errors.New("odd")
	for _, failing := range []string{"Mount", "At"} {
		w := newFixture(t, &mounts.Memory{Fault: func(_ context.Context, call, _ string) error {
			if call == failing {
				return errInjected
			}
			return nil
		}})
		_, err := w.Prepare(t.Context(), w.at)
		require.ErrorIs(t, err, errInjected)
		require.NoError(t, w.Release(t.Context(), w.at))
	}
}

// V16: invalid input is rejected before any change.
func TestInvalidSubPathsAreRejected(t *testing.T) {
	w := newFixture(t, &mounts.Memory{})
	for want, change := range map[string]func(*volume.SubPath){
		`"../.." is not relative`: func(s *volume.SubPath) { s.Path = "../.." },
		`"/etc" is not relative`:  func(s *volume.SubPath) { s.Path = "/etc" },
		`NUL`:                     func(s *volume.SubPath) { s.Path = "a\x00b" },
		"path: more than":         func(s *volume.SubPath) { s.Path = longPath() },
		"volume path":             func(s *volume.SubPath) { s.VolumePath = "v" },
		"index":                   func(s *volume.SubPath) { s.Index = -1 },
		`container: "../c"`:       func(s *volume.SubPath) { s.Container = "../c" },
		`volume: ".."`:            func(s *volume.SubPath) { s.Volume = ".." },
		`pod UID: ""`:             func(s *volume.SubPath) { s.PodUID = "" },
	} {
		s := w.at
		change(&s)
		_, err := w.Prepare(t.Context(), s)
		require.ErrorContains(t, err, want)
	}
	require.Error(t, w.ReleasePod(t.Context(), "../u"))
	require.Error(t, w.Release(t.Context(), volume.SubPath{}))
	require.NoDirExists(t, w.layout.SubPaths("u"))
	_, err := New(Config{})
	require.EqualError(t, err, "subpath: Config.Layout.Root is required")
	_, err = New(Config{Layout: volume.Layout{Root: "x"}})
	require.ErrorContains(t, err, "not absolute")
}

func longPath() string {
	return fmt.Sprintf("%0*d", maxPath+1, 0)
}

// V15 with real mounts: a mount never shows a file of the node.
func TestRace(t *testing.T) {
	k := real(t)
	withAndWithoutOpenat2(t, func(t *testing.T, walkOnly bool) {
		w := newFixture(t, k)
		w.walkOnly = walkOnly
		outside := filepath.Join(filepath.Dir(w.vol), "outside")
		stop := swap(t, w.vol, outside)
		defer stop()
		var secret unix.Stat_t
		require.NoError(t, unix.Stat(filepath.Join(outside, "y", "secret"), &secret))
		w.at.Path = "x/y/secret"
		mounted := 0
		for end := time.Now().Add(raceTime); time.Now().Before(end) || mounted == 0; {
			target, err := w.Prepare(t.Context(), w.at)
			if err != nil {
				continue
			}
			var is unix.Stat_t
			require.NoError(t, unix.Stat(target, &is))
			require.NotEqual(t, secret.Ino, is.Ino)
			mounted++
			require.NoError(t, w.Release(t.Context(), w.at))
		}
		t.Log("mounted", mounted)
	})
}

package projected

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
)

type fixture struct {
	t       testing.TB
	backing *backing
	volumes *volumes
	m       volume.Mount
	layout  volume.Layout
	chowned map[string][2]int
}

func newFixture(t testing.TB) *fixture {
	r := &fixture{t: t, backing: newBacking(), layout: volume.Layout{Root: t.TempDir()}, chowned: map[string][2]int{}}
	var err error
	r.volumes, err = newVolumes(Config{Backing: r.backing})
	require.NoError(t, err)
	r.volumes.chown = func(_ int, path string, uid, gid int) error {
		was, ok := r.chowned[filepath.Base(path)]
		if !ok {
			was = [2]int{-1, -1}
		}
		r.chowned[filepath.Base(path)] = [2]int{max(was[0], uid), max(was[1], gid)}
		return nil
	}
	r.m = volume.Mount{
		Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, Spec: &volume.Spec{Name: "v", Inline: &v1.VolumeSource{}},
		Dir: r.layout.Volume("u", configMapName, "v"), StateDir: r.layout.State("u", configMapName, "v"),
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(r.m.Dir), 0o750))
	return r
}

func (r *fixture) mount(text string) (volume.Mounted, error) {
	return r.volumes.mount(context.Background(), r.m, content{
		medium: v1.StorageMediumMemory, payload: payload{"key": {Data: []byte(text), Mode: 0o600}},
	})
}

func (r *fixture) unmount() error {
	return r.volumes.unmount(context.Background(), volume.Unmount{Pod: "u", Name: "v", Dir: r.m.Dir, StateDir: r.m.StateDir})
}

func (r *fixture) key() string {
	data, err := os.ReadFile(filepath.Join(r.m.Dir, "key"))
	require.NoError(r.t, err)
	return string(data)
}

func (r *fixture) marker() string {
	return filepath.Join(r.layout.Root, "pods/u/plugins/kubernetes.io~empty-dir/wrapped_v/ready")
}

// An unchanged volume is not mounted again; a damaged one is.
func TestUnchangedIsCheap(t *testing.T) {
	r := newFixture(t)
	mount := func() int {
		before := r.backing.mounted
		_, err := r.mount("one")
		require.NoError(t, err)
		require.Equal(t, "one", r.key())
		return r.backing.mounted - before
	}
	require.Equal(t, 1, mount())
	for _, damaged := range []string{"key", "..data/key", ""} {
		// The file system's clock may be coarse.
		require.Eventually(t, func() bool { return mount() == 0 }, time.Minute, 10*time.Millisecond)
		require.NoError(t, os.RemoveAll(filepath.Join(r.m.Dir, damaged)))
		require.Equal(t, 1, mount(), damaged)
	}
	r.m.Inside = []string{"more"}
	require.Equal(t, 1, mount())
	require.DirExists(t, filepath.Join(r.m.Dir, "more"))
}

func TestFSGroupIsSetBeforePublish(t *testing.T) {
	r := newFixture(t)
	group, owner := int64(2000), int64(7)
	r.m.FSGroup = &group
	_, err := r.volumes.mount(context.Background(), r.m, content{
		payload: payload{"key": {Mode: 0o600, Owner: &owner}, "d/other": {Mode: 0o400}},
	})
	require.NoError(t, err)
	require.Equal(t, [2]int{7, 2000}, r.chowned["key"])
	require.Equal(t, [2]int{-1, 2000}, r.chowned["other"])
	require.Equal(t, [2]int{-1, 2000}, r.chowned["v"], "the root")
	for path, mode := range map[string]fs.FileMode{
		"key": 0o640, "d/other": 0o440, "d": fs.ModeDir | fs.ModeSetgid | 0o755, ".": fs.ModeDir | fs.ModeSetgid | 0o777,
	} {
		info, err := os.Stat(filepath.Join(r.m.Dir, path))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), path)
	}
}

func TestInside(t *testing.T) {
	r := newFixture(t)
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	r.m.Inside = []string{"a/b", "c"}
	for range 2 {
		_, err := r.mount("one")
		require.NoError(t, err)
	}
	for _, at := range []string{"a", "a/b", "c"} {
		info, err := os.Stat(filepath.Join(r.m.Dir, at))
		require.NoError(t, err)
		require.Equal(t, fs.ModeDir|0o755, info.Mode())
	}
	r.m.Inside = []string{"..data"}
	_, err := r.mount("two")
	require.ErrorContains(t, err, `begins with ".."`)
	require.ErrorIs(t, err, volume.ErrTransient)
	require.Equal(t, "one", r.key())

	// A debug container mounts below an existing file: the file stays.
	r.m.Inside = []string{"key/below"}
	_, err = r.mount("two")
	require.NoError(t, err)
	require.Equal(t, "two", r.key())

	// On a new mount the folder replaces the file, as in other kubelets.
	require.NoError(t, r.unmount())
	for _, text := range []string{"three", "four"} {
		_, err = r.mount(text)
		require.NoError(t, err)
		require.DirExists(t, filepath.Join(r.m.Dir, "key/below"))
	}
}

// V7: a failed first mount leaves no files.
func TestFirstMountFails(t *testing.T) {
	r := newFixture(t)
	errInjected := errors.New("odd")
	for _, again := range []bool{false, true} {
		require.NoError(t, os.MkdirAll(filepath.Join(r.m.Dir, "key", "in the way"), 0o755))
		r.m.Again, r.m.Found = again, !again
		r.m.FSGroup = new(int64)
		*r.m.FSGroup = -7
		_, err := r.mount("one")
		require.ErrorContains(t, err, "-7 is not a valid group ID")
		require.ErrorIs(t, err, volume.ErrUncertain)
		require.FileExists(t, r.marker(), "a mounted volume stays")
	}
	r.m.Again, r.m.Found = false, false
	_, err := r.mount("one")
	require.NotErrorIs(t, err, volume.ErrUncertain)
	require.NotErrorIs(t, err, volume.ErrTransient)
	require.NoDirExists(t, r.m.Dir)
	require.NoFileExists(t, r.marker())

	r.backing.fail = func(method string) error {
		if method == "unmount" {
			return errInjected
		}
		return nil
	}
	_, err = r.mount("one")
	require.ErrorIs(t, err, errInjected)
	require.ErrorIs(t, err, volume.ErrUncertain, "the undo failed")
	r.backing.fail = func(string) error { return errInjected }
	_, err = r.mount("one")
	require.ErrorIs(t, err, errInjected)
	require.ErrorIs(t, r.unmount(), errInjected)
}

package emptydir_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/emptydir"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/volumetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a volume of a pod in the folder layout of kubelets.
type fixture struct {
	*testing.T
	mounts mounts.Mounter
	plugin *emptydir.Plugin
	mount  volume.Mount
}

func newFixture(t *testing.T, m mounts.Mounter, source *v1.EmptyDirVolumeSource) *fixture {
	layout := volume.Layout{Root: t.TempDir()}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	w := &fixture{T: t, mounts: m, plugin: emptydir.New(emptydir.Config{Mounts: m})}
	w.mount = volume.Mount{
		Pod: pod, Spec: &volume.Spec{Name: "v", Inline: &v1.VolumeSource{EmptyDir: source}},
		Dir: layout.Volume("u", "kubernetes.io/empty-dir", "v"), StateDir: layout.State("u", "kubernetes.io/empty-dir", "v"),
	}
	if source.SizeLimit != nil {
		w.mount.SizeLimit = source.SizeLimit.Value()
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(w.mount.Dir), 0o750))
	t.Cleanup(func() { _ = w.unmount(context.Background()) })
	return w
}

func (w *fixture) prepare() volume.Mounted {
	w.Helper()
	out, err := w.plugin.Mount(w.Context(), w.mount)
	require.NoError(w, err)
	require.Equal(w, volume.Mounted{Path: w.mount.Dir, Relabel: true}, out)
	require.FileExists(w, filepath.Join(w.mount.StateDir, "ready"))
	info, err := os.Stat(w.mount.Dir)
	require.NoError(w, err)
	want := os.ModeDir | 0o777
	if w.mount.Spec.Inline.EmptyDir.Medium == v1.StorageMediumMemory {
		want |= os.ModeSticky
	}
	require.Equal(w, want, info.Mode()&^os.ModeSetgid)
	return out
}

func (w *fixture) unmount(ctx context.Context) error {
	return w.plugin.Unmount(ctx, volume.Unmount{Pod: "u", Name: "v", Dir: w.mount.Dir, StateDir: w.mount.StateDir})
}

func (w *fixture) write(name string) string {
	path := filepath.Join(w.mount.Dir, name)
	require.NoError(w, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(w, os.WriteFile(path, []byte("x"), 0o600))
	return path
}

func (w *fixture) at() (mounts.Point, bool) {
	p, mounted, err := w.mounts.At(w.Context(), w.mount.Dir)
	require.NoError(w, err)
	return p, mounted
}

// each runs a test with mounts.Memory, and as root also with mounts.Kernel.
func each(t *testing.T, test func(*testing.T, mounts.Mounter)) {
	t.Run("Memory", func(t *testing.T) { test(t, &mounts.Memory{}) })
	t.Run("Kernel", func(t *testing.T) {
		if os.Getuid() != 0 && os.Getenv("PODWRIGHT_REQUIRE_CRI") != "1" {
			t.Skip("needs root")
		}
		test(t, &mounts.Kernel{})
	})
}

// V1: a folder on the disk has mode 0777, independent of the umask, and a marker.
func TestDisk(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	each(t, func(t *testing.T, m mounts.Mounter) {
		w := newFixture(t, m, &v1.EmptyDirVolumeSource{})
		w.prepare()
		file := w.write("a/b")
		w.prepare()
		require.FileExists(t, file, "existing files stay")
		require.NoError(t, w.unmount(t.Context()))
		require.NoDirExists(t, w.mount.Dir)
		require.NoDirExists(t, w.mount.StateDir)
		require.NoError(t, w.unmount(t.Context()))
	})
}

// A folder without a marker is completed after a crash. A complete folder keeps a mode that a
// container set.
func TestIncompleteMountIsCompleted(t *testing.T) {
	w := newFixture(t, &mounts.Memory{}, &v1.EmptyDirVolumeSource{})
	w.prepare()
	require.NoError(t, os.RemoveAll(w.mount.StateDir))
	require.NoError(t, os.Chmod(w.mount.Dir, 0o700))
	w.prepare()

	require.NoError(t, os.Chmod(w.mount.Dir, 0o711))
	_, err := w.plugin.Mount(t.Context(), w.mount)
	require.NoError(t, err)
	info, err := os.Stat(w.mount.Dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o711), info.Mode().Perm())
}

func TestMemory(t *testing.T) {
	each(t, func(t *testing.T, m mounts.Mounter) {
		limit := resource.MustParse("2Mi")
		w := newFixture(t, m, &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: &limit})
		w.prepare()
		p, mounted := w.at()
		require.True(t, mounted)
		require.Equal(t, "tmpfs", p.FSType)
		require.EqualValues(t, 2<<20, p.Size)
		file := w.write("f")
		w.prepare()
		require.FileExists(t, file)
		points, err := m.Below(t.Context(), w.mount.Dir)
		require.NoError(t, err)
		require.Len(t, points, 1)

		require.NoError(t, m.Unmount(t.Context(), w.mount.Dir))
		w.prepare()
		_, mounted = w.at()
		require.True(t, mounted, "a removed mount is restored")

		require.NoError(t, w.unmount(t.Context()))
		require.NoDirExists(t, w.mount.Dir)
	})
}

// V13: invalid sources are rejected and no folder is created.
func TestInvalidSpecsAreRejected(t *testing.T) {
	negative := resource.MustParse("-1")
	for want, source := range map[string]*v1.EmptyDirVolumeSource{
		`medium: "Disk" is unknown`: {Medium: "Disk"},
		`medium: "HugePages-2Mi"`:   {Medium: "HugePages-2Mi"},
		`medium: "HugePages"`:       {Medium: "HugePages"},
		`medium: "HugePages-x"`:     {Medium: "HugePages-x"},
		"sizeLimit: -1 bytes: ":     {SizeLimit: &negative},
	} {
		w := newFixture(t, &mounts.Memory{}, source)
		_, err := w.plugin.Mount(t.Context(), w.mount)
		require.ErrorContains(t, err, want)
		require.NotErrorIs(t, err, volume.ErrUncertain)
		require.NoDirExists(t, w.mount.Dir)
		require.NoDirExists(t, w.mount.StateDir)
	}
}

func TestHugePages(t *testing.T) {
	each(t, func(t *testing.T, m mounts.Mounter) {
		w := newFixture(t, m, &v1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"})
		w.mount.Pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")},
			Limits:   v1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")},
		}}}
		if _, err := w.plugin.Mount(t.Context(), w.mount); err != nil {
			t.Skip("no huge pages:", err)
		}
		w.prepare()
		p, mounted := w.at()
		require.True(t, mounted)
		require.Equal(t, "hugetlbfs", p.FSType)
		require.EqualValues(t, 2<<20, p.PageSize)

		w.mount.Spec.Inline.EmptyDir.Medium = "HugePages-1Gi"
		w.mount.Pod.Spec.Containers[0].Resources.Requests["hugepages-1Gi"] = resource.MustParse("1Gi")
		_, err := w.plugin.Mount(t.Context(), w.mount)
		require.ErrorIs(t, err, emptydir.ErrPageSize)
		require.NoError(t, w.unmount(t.Context()))
		require.NoDirExists(t, w.mount.Dir)
	})
}

// Files of foreign mounts in or over the volume are not deleted.
func TestForeignMounts(t *testing.T) {
	if os.Getuid() != 0 && os.Getenv("PODWRIGHT_REQUIRE_CRI") != "1" {
		t.Skip("needs root")
	}
	k := &mounts.Kernel{}
	for _, at := range []string{"", "inner"} {
		w := newFixture(t, k, &v1.EmptyDirVolumeSource{})
		w.prepare()
		outside := t.TempDir()
		precious, point := filepath.Join(outside, "precious"), filepath.Join(w.mount.Dir, at)
		require.NoError(t, os.WriteFile(precious, nil, 0o600))
		require.NoError(t, os.MkdirAll(point, 0o700))
		require.NoError(t, k.Mount(t.Context(), mounts.Mount{Source: outside, Target: point, Options: []string{"bind"}}))
		t.Cleanup(func() { _ = k.Detach(context.Background(), point) })
		require.ErrorIs(t, w.unmount(t.Context()), fs.ErrMounted)
		require.FileExists(t, precious)
		require.NoError(t, k.Unmount(t.Context(), point))
		require.NoError(t, w.unmount(t.Context()))
		require.NoDirExists(t, w.mount.Dir)
		require.FileExists(t, precious)
	}
}

// If "noswap" is rejected, the volume is mounted without it. Other failures are returned.
func TestRejectedNoswap(t *testing.T) {
	errInjected := errors.New("odd")
	m := &mounts.Memory{Unknown: []string{"noswap"}}
	w := newFixture(t, m, &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory})
	w.prepare()
	require.Len(t, m.Calls(), 1)
	require.NoError(t, w.unmount(t.Context()))

	m.Fault = func(_ context.Context, call, _ string) error {
		if call == "Mount" || call == "Unmount" {
			return errInjected
		}
		return nil
	}
	_, err := w.plugin.Mount(t.Context(), w.mount)
	require.ErrorIs(t, err, errInjected)
	require.ErrorIs(t, err, volume.ErrUncertain, "the folder exists")
	require.NoFileExists(t, filepath.Join(w.mount.StateDir, "ready"))
	require.NoError(t, w.unmount(t.Context()))
}

func TestFSGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	w := newFixture(t, &mounts.Memory{}, &v1.EmptyDirVolumeSource{})
	w.prepare()
	file := w.write("f")
	group := int64(2000)
	w.mount.FSGroup = &group
	w.prepare()
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 2000, info.Sys().(*syscall.Stat_t).Gid)
	info, err = os.Stat(w.mount.Dir)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSetgid)
}

func TestSupports(t *testing.T) {
	p := emptydir.New(emptydir.Config{})
	require.True(t, p.Supports(&volume.Spec{Inline: &v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}))
	require.False(t, p.Supports(&volume.Spec{Inline: &v1.VolumeSource{}}))
	require.False(t, p.Supports(&volume.Spec{Persistent: &v1.PersistentVolume{}}))
	require.Equal(t, "kubernetes.io/empty-dir", p.Name())
}

// Only folders on the disk are tracked, and only for pods with their own user namespace. A
// failure of Track does not fail the mount.
func TestTrack(t *testing.T) {
	own, shared := false, true
	for _, test := range []struct {
		name   string
		source v1.EmptyDirVolumeSource
		users  *bool
		want   bool
	}{
		{"own user namespace", v1.EmptyDirVolumeSource{}, &own, true},
		{"the node's user namespace", v1.EmptyDirVolumeSource{}, &shared, false},
		{"hostUsers not set", v1.EmptyDirVolumeSource{}, nil, false},
		{"in memory", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}, &own, false},
	} {
		w := newFixture(t, &mounts.Memory{}, &test.source)
		var tracked []string
		w.plugin = emptydir.New(emptydir.Config{Mounts: w.mounts, Track: func(_ context.Context, dir string) error {
			require.DirExists(t, dir)
			tracked = append(tracked, dir)
			return errors.New("no project quotas")
		}})
		w.mount.Pod.Spec.HostUsers = test.users
		w.prepare()
		if test.want {
			require.Equal(t, []string{w.mount.Dir}, tracked, test.name)
		} else {
			require.Empty(t, tracked, test.name)
		}
	}
}

// The contract of plugins, with a kill at any point.
func TestPlugin(t *testing.T) {
	each(t, func(t *testing.T, m mounts.Mounter) {
		for _, medium := range []v1.StorageMedium{v1.StorageMediumDefault, v1.StorageMediumMemory} {
			t.Run("medium "+string(medium), func(t *testing.T) {
				if testing.Short() && medium == v1.StorageMediumDefault {
					t.Skip("this case needs a folder on the disk")
				}
				volumetest.Run(t, func(t testing.TB) volumetest.Subject { return subject(t, m, medium) })
			})
		}
	})
}

func subject(t testing.TB, m mounts.Mounter, medium v1.StorageMedium) volumetest.Subject {
	layout, plugin := volume.Layout{Root: t.TempDir()}, emptydir.New(emptydir.Config{Mounts: m})
	t.Cleanup(func() {
		points, _ := m.Below(context.Background(), layout.Root)
		for i := range points {
			_ = m.Detach(context.Background(), points[len(points)-1-i].Path)
		}
	})
	// mounted returns a func that mounts a volume and then damages it with lose.
	mounted := func(lose func(volume.Mount) error) func(volume.Mount) error {
		return func(v volume.Mount) error {
			if err := os.MkdirAll(filepath.Dir(v.Dir), 0o750); err != nil {
				return err
			}
			_, err := plugin.Mount(t.Context(), v)
			return errors.Join(err, lose(v))
		}
	}
	unmount := func(v volume.Mount) error { return m.Unmount(t.Context(), v.Dir) }
	return volumetest.Subject{
		Layout: layout,
		Open:   func() (volume.Plugin, error) { return emptydir.New(emptydir.Config{Mounts: m}), nil },
		Spec: func(_ *v1.Pod, name string) *volume.Spec {
			return &volume.Spec{Name: name, Inline: &v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: medium}}}
		},
		Check: func(v volume.Mounted) error {
			_, is, err := m.At(t.Context(), v.Path)
			if err == nil && is != (medium == v1.StorageMediumMemory) {
				return fmt.Errorf("mounted: %v", is)
			}
			return err
		},
		Halfway: map[string]func(volume.Mount) error{
			"only mounted": mounted(func(v volume.Mount) error { return os.RemoveAll(v.StateDir) }),
			"unmounted":    mounted(unmount),
			"no folder":    mounted(func(v volume.Mount) error { return errors.Join(unmount(v), os.Remove(v.Dir)) }),
		},
	}
}

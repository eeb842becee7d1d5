package local_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/internal/blockdev"
	"github.com/podwright/podwright/volume/local"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/volumetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const pluginName = "kubernetes.io/local-volume"

type fixture struct {
	*testing.T
	plugin *local.Plugin
	layout volume.Layout
	mounts mounts.Mounter
	spec   *volume.Spec
	events []string
}

func newFixture(t *testing.T, m mounts.Mounter, path string) *fixture {
	w := &fixture{T: t, layout: volume.Layout{Root: t.TempDir()}, mounts: m}
	plugin, err := local.New(local.Config{Layout: w.layout, Mounts: m, Event: func(_ v1.ObjectReference, _, reason, _ string) {
		w.events = append(w.events, reason)
	}})
	require.NoError(t, err)
	w.plugin = plugin
	w.spec = &volume.Spec{Name: "pv", Persistent: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
	}}}
	cleanup(t, w.layout, m)
	return w
}

func cleanup(t testing.TB, layout volume.Layout, m mounts.Mounter) {
	t.Cleanup(func() {
		ctx := context.Background()
		points, _ := m.Below(ctx, layout.Root)
		for _, p := range slices.Backward(points) {
			_ = m.Detach(ctx, p.Path)
		}
		p, _ := local.New(local.Config{Layout: layout, Mounts: m})
		ids, _ := p.Staged(ctx)
		for _, id := range ids {
			_ = p.Unstage(ctx, id)
		}
	})
}

func (w *fixture) mount(uid types.UID, group int64) (volume.Mounted, error) {
	staged, err := w.plugin.Stage(w.Context(), volume.Stage{ID: w.plugin.VolumeID(w.spec), Spec: w.spec})
	if err != nil {
		return volume.Mounted{}, err
	}
	m := volume.Mount{
		Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}, Spec: w.spec, Staged: staged,
		Dir: w.layout.Volume(uid, pluginName, "pv"),
	}
	if w.spec.Block() {
		m.Dir = w.layout.Device(uid, pluginName, "pv")
	}
	if group > 0 {
		m.FSGroup = &group
	}
	require.NoError(w, os.MkdirAll(filepath.Dir(m.Dir), 0o750))
	return w.plugin.Mount(w.Context(), m)
}

func (w *fixture) mounted(uid types.UID, group int64) volume.Mounted {
	w.Helper()
	out, err := w.mount(uid, group)
	require.NoError(w, err)
	return out
}

func (w *fixture) requireRemoved(uid types.UID) {
	w.Helper()
	require.NoError(w, w.unmount(uid))
	require.NoError(w, w.plugin.Unstage(w.Context(), "pv"))
}

func (w *fixture) staged() []string {
	ids, err := w.plugin.Staged(w.Context())
	require.NoError(w, err)
	return ids
}

func groupOf(t *testing.T, path string) uint32 {
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Gid
}

func (w *fixture) unmount(uid types.UID) error {
	u := volume.Unmount{Pod: uid, Name: "pv", Dir: w.layout.Volume(uid, pluginName, "pv"), Block: w.spec.Block()}
	if u.Block {
		u.Dir = w.layout.Device(uid, pluginName, "pv")
	}
	return w.plugin.Unmount(w.Context(), u)
}

func root(t testing.TB) *mounts.Kernel {
	if os.Getuid() != 0 {
		if os.Getenv("PODWRIGHT_REQUIRE_CRI") == "1" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
	return &mounts.Kernel{}
}

// V26: each pod has its own mount of a shared folder.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	w := newFixture(t, root(t), dir)
	for _, uid := range []types.UID{"1", "2", "1"} {
		got := w.mounted(uid, 0)
		require.Equal(t, volume.Mounted{Path: w.layout.Volume(uid, pluginName, "pv"), Relabel: true}, got)
		require.FileExists(t, filepath.Join(got.Path, "f"))
	}
	require.NoError(t, w.unmount("1"))
	require.NoError(t, w.unmount("1"))
	require.NoDirExists(t, w.layout.Volume("1", pluginName, "pv"))
	require.FileExists(t, filepath.Join(w.layout.Volume("2", pluginName, "pv"), "f"))

	w.spec.ReadOnly = true
	got := w.mounted("3", 0)
	require.True(t, got.ReadOnly)
	require.ErrorIs(t, os.WriteFile(filepath.Join(got.Path, "g"), nil, 0o600), syscall.EROFS)
	require.NoError(t, w.unmount("2"))
	w.requireRemoved("3")
	require.FileExists(t, file)
	points, err := w.mounts.Below(t.Context(), w.layout.Root)
	require.NoError(t, err)
	require.Empty(t, points)
}

// Mount completes a read-only mount of an agent that was killed between its two steps.
func TestReadOnlyMountIsCompleted(t *testing.T) {
	k, dir := root(t), t.TempDir()
	w := newFixture(t, k, dir)
	w.mounted("1", 0)
	w.spec.ReadOnly = true
	got := w.mounted("1", 0)
	require.ErrorIs(t, os.WriteFile(filepath.Join(got.Path, "g"), nil, 0o600), syscall.EROFS)
}

// The first pod's fsGroup stays while it uses the volume. An event reports this for the second
// pod.
func TestFSGroupOfTwoPods(t *testing.T) {
	dir := t.TempDir()
	w := newFixture(t, root(t), dir)
	for _, step := range []struct {
		uid         types.UID
		group, want int64
		events      int
	}{{"1", 2000, 2000, 0}, {"2", 2000, 2000, 0}, {"3", 3000, 2000, 1}} {
		w.mounted(step.uid, step.group)
		require.EqualValues(t, step.want, groupOf(t, dir))
		require.Len(t, w.events, step.events)
	}
	require.Equal(t, []string{"AlreadyMountedVolume"}, w.events)
	require.NoError(t, w.unmount("1"))
	require.NoError(t, w.unmount("2"))
	w.mounted("3", 3000)
	require.EqualValues(t, 3000, groupOf(t, dir))
}

// device returns a block device of size bytes: a loop device on a file.
func device(t testing.TB, size int64) string {
	root(t)
	for _, program := range []string{"losetup", "mkfs.ext4", "blkid", "fsck"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("PODWRIGHT_REQUIRE_CRI") == "1" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	file := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, size))
	out, err := exec.Command("losetup", "-f", "--show", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	name := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", name).Run() })
	return name
}

func TestDeviceWithFiles(t *testing.T) {
	disk := device(t, 32<<20)
	w := newFixture(t, &mounts.Kernel{}, disk)
	got := w.mounted("1", 2000)
	file := filepath.Join(got.Path, "f")
	require.NoError(t, os.WriteFile(file, []byte("kept"), 0o600))
	points, err := w.mounts.Below(t.Context(), filepath.Join(w.layout.Plugin(pluginName), "mounts", "pv"))
	require.NoError(t, err)
	require.Len(t, points, 1)
	require.Equal(t, "ext4", points[0].FSType)
	require.Equal(t, []string{"pv"}, w.staged())

	for range 2 {
		w.requireRemoved("1")
	}
	require.Empty(t, w.staged())

	got = w.mounted("2", 0)
	data, err := os.ReadFile(filepath.Join(got.Path, "f"))
	require.NoError(t, err)
	require.Equal(t, "kept", string(data), "the device is not formatted again")
	w.requireRemoved("2")

	xfs := "xfs"
	w.spec.Persistent.Spec.Local.FSType = &xfs
	_, err = w.mount("3", 0)
	require.Error(t, err, "another file system is not overwritten")
	require.ErrorIs(t, err, volume.ErrUncertain)
	var own interface{ EventReason() string }
	require.ErrorAs(t, err, &own)
	require.Equal(t, "FailedMountOnFilesystemMismatch", own.EventReason())
	w.spec.Persistent.Spec.Local.FSType = nil
	w.mounted("3", 0)
	w.requireRemoved("3")
}

func TestDevice(t *testing.T) {
	disk := device(t, 1<<20)
	w := newFixture(t, &mounts.Kernel{}, disk)
	block := v1.PersistentVolumeBlock
	w.spec.Persistent.Spec.VolumeMode = &block
	got := w.mounted("1", 0)
	require.Equal(t, volume.Mounted{Device: w.layout.Device("1", pluginName, "pv")}, got)
	target, err := os.Readlink(got.Device)
	require.NoError(t, err)
	require.Equal(t, disk, target)
	loop, err := blockdev.Holder(disk)
	require.NoError(t, err)
	require.NotEmpty(t, loop)
	again, err := blockdev.Hold(disk)
	require.NoError(t, err)
	require.Equal(t, loop, again)
	w.requireRemoved("1")
	loop, err = blockdev.Holder(disk)
	require.NoError(t, err)
	require.Empty(t, loop)
}

func TestInvalidSpecsAreRejected(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	block := v1.PersistentVolumeBlock
	for want, change := range map[string]func(*volume.Spec){
		`path: "a"`:               func(s *volume.Spec) { s.Persistent.Spec.Local.Path = "a" },
		`path: "/a/../b"`:         func(s *volume.Spec) { s.Persistent.Spec.Local.Path = "/a/../b" },
		"no such file":            func(s *volume.Spec) { s.Persistent.Spec.Local.Path = dir + "/x" },
		"neither a folder":        func(s *volume.Spec) { s.Persistent.Spec.Local.Path = file },
		"not a block device":      func(s *volume.Spec) { s.Persistent.Spec.VolumeMode = &block },
		"not a valid folder name": func(s *volume.Spec) { s.Name = "../x" },
	} {
		w := newFixture(t, &mounts.Memory{}, dir)
		change(w.spec)
		_, err := w.mount("1", 0)
		require.ErrorContains(t, err, want)
		require.NotErrorIs(t, err, volume.ErrUncertain)
		require.NoDirExists(t, w.layout.Plugin(pluginName))
	}
	_, err := local.New(local.Config{})
	require.EqualError(t, err, "local: Config.Layout.Root is required")
	p, err := local.New(local.Config{Layout: volume.Layout{Root: dir}})
	require.NoError(t, err)
	require.False(t, p.Supports(&volume.Spec{Inline: &v1.VolumeSource{}}))
	id, err := p.VolumeIDOf("/var/lib/kubelet/pods/u/volumes/kubernetes.io~local-volume/pv")
	require.NoError(t, err)
	require.Equal(t, "pv", id)
}

// contract runs the conformance suite. path creates the folder or device of each volume.
func contract(t *testing.T, m mounts.Mounter, mode v1.PersistentVolumeMode, path func(t testing.TB) string) {
	volumetest.Run(t, func(t testing.TB) volumetest.Subject {
		layout, at := volume.Layout{Root: t.TempDir()}, path(t)
		cleanup(t, layout, m)
		return volumetest.Subject{
			Layout: layout,
			Open:   func() (volume.Plugin, error) { return local.New(local.Config{Layout: layout, Mounts: m}) },
			Spec: func(_ *v1.Pod, name string) *volume.Spec {
				return &volume.Spec{Name: name, Persistent: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
					VolumeMode:             &mode,
					PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: at}},
				}}}
			},
			Data: data(at),
		}
	})
}

// data returns the Data of a Subject whose volumes are a folder or a device.
func data(path string) func(volume.Mounted) string {
	return func(m volume.Mounted) string {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
		return m.Path
	}
}

func TestContract(t *testing.T) {
	folder := func(t testing.TB) string { return t.TempDir() }
	disk := func(t testing.TB) string { return device(t, 16<<20) }
	t.Run("folder, in memory", func(t *testing.T) {
		contract(t, &mounts.Memory{}, v1.PersistentVolumeFilesystem, folder)
	})
	t.Run("folder", func(t *testing.T) { contract(t, root(t), v1.PersistentVolumeFilesystem, folder) })
	t.Run("device with files", func(t *testing.T) { contract(t, root(t), v1.PersistentVolumeFilesystem, disk) })
	t.Run("device", func(t *testing.T) { contract(t, root(t), v1.PersistentVolumeBlock, disk) })
}

package csi_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/csi"
	"github.com/podwright/podwright/examples/kubelet/csi/csitest"
	"github.com/podwright/podwright/volume"
	volumecsi "github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/volumetest"
)

func root(t testing.TB) {
	if os.Getuid() != 0 {
		if os.Getenv("PODWRIGHT_REQUIRE_CRI") == "1" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
}

// objects say that every driver has inline volumes, too.
type objects struct{}

func (objects) CSIDriver(string) (*storagev1.CSIDriver, error) {
	no := false
	return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{
		AttachRequired: &no, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{"Persistent", "Ephemeral"},
	}}, nil
}

// layout is an agent's folder from which everything is unmounted at the end.
func layout(t testing.TB) volume.Layout {
	l := volume.Layout{Root: t.TempDir()}
	t.Cleanup(func() {
		k := &mounts.Kernel{}
		points, _ := k.Below(context.Background(), l.Root)
		for i := range points {
			_ = k.Detach(context.Background(), points[len(points)-1-i].Path)
		}
	})
	return l
}

func persistent(driver, name string) *volume.Spec {
	return &volume.Spec{Name: name, Persistent: &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: driver, VolumeHandle: "handle-" + name,
			}},
		},
	}}
}

func inline(driver, name string) *volume.Spec {
	return &volume.Spec{Name: name, Inline: &v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driver}}}
}

// isMounted is what containers of a volume rely on.
func isMounted(m volume.Mounted) error {
	var s unix.Statfs_t
	if err := unix.Statfs(m.Path, &s); err != nil {
		return err
	}
	if s.Type != unix.TMPFS_MAGIC {
		return &os.PathError{Op: "statfs", Path: m.Path, Err: unix.EINVAL}
	}
	return nil
}

// The contract of plugins, with a real driver over its socket.
func TestContract(t *testing.T) {
	root(t)
	for name, c := range map[string]struct {
		stages bool
		spec   func(driver, name string) *volume.Spec
	}{"staged": {true, persistent}, "not staged": {false, persistent}, "inline": {true, inline}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var broken atomic.Bool
			w.start(&csitest.Driver{Name: "d", Stages: c.stages, Fault: func(_ context.Context, method string) error {
				if broken.Load() && method == "NodePublishVolume" {
					return status.Error(codes.Internal, "broken")
				}
				return nil
			}})
			w.eventually("registered", func() bool { return w.Driver("d") != nil })
			volumetest.Run(t, func(t testing.TB) volumetest.Subject {
				l := layout(t)
				return volumetest.Subject{
					Layout: l,
					Open:   func() (volume.Plugin, error) { return plugin(l, w) },
					Spec:   func(_ *v1.Pod, name string) *volume.Spec { return c.spec("d", name) },
					Check:  isMounted,
					Fail: func() (mend func()) {
						broken.Store(true)
						return func() { broken.Store(false) }
					},
				}
			})
		})
	}
}

func plugin(l volume.Layout, d volumecsi.Drivers) (*volumecsi.Plugin, error) {
	return volumecsi.New(volumecsi.Config{Layout: l, NodeName: "node", Drivers: d, CSIDrivers: objects{}, CallTimeout: 5 * time.Second})
}

// manager runs a volume.Manager with the plugin.
func manager(t *testing.T, l volume.Layout, d volumecsi.Drivers) *volume.Manager {
	p, err := plugin(l, d)
	require.NoError(t, err)
	m, err := volume.New(volume.Config{
		Plugins: []volume.Plugin{p}, Layout: l, Claims: claims{}, Complete: func() bool { return true },
		OperationTimeout: 10 * time.Second,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return m
}

// claims are called as "driver.volume".
type claims struct{}

func (claims) Resolve(_ context.Context, _ *v1.Pod, v v1.Volume) (*volume.Spec, error) {
	name := v.PersistentVolumeClaim.ClaimName
	driver := filepath.Ext(name)[1:]
	return persistent(driver, name), nil
}

// pod has one claim of a driver.
func pod(uid types.UID, claim string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p" + string(uid), UID: uid},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
			Containers: []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
		},
	}
}

// V20: a publish that does not end in time is uncertain; that of the pod which is released
// is taken back. Meanwhile pods of another driver come and go.
func TestV20HungDriver(t *testing.T) {
	root(t)
	w := newWorld(t)
	var mended atomic.Bool
	hung := w.start(&csitest.Driver{Name: "hung", Stages: true, Fault: func(ctx context.Context, method string) error {
		if method == "NodePublishVolume" && !mended.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}})
	w.start(&csitest.Driver{Name: "good", Stages: true})
	w.eventually("registered", func() bool { return w.Driver("hung") != nil && w.Driver("good") != nil })
	l := layout(t)
	m := manager(t, l, w)
	stuck, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- m.Prepare(stuck, pod("1", "a.hung")) }()
	w.eventually("it hangs", func() bool {
		for _, call := range hung.Calls() {
			if call == "NodePublishVolume" {
				return true
			}
		}
		return false
	})
	begun := time.Now()
	for _, uid := range []types.UID{"2", "3"} {
		require.NoError(t, m.Prepare(t.Context(), pod(uid, "b.good")))
		require.NoError(t, isMounted(volume.Mounted{Path: l.Volume(uid, volumecsi.Name, "b.good") + "/mount"}))
	}
	for _, uid := range []types.UID{"2", "3"} {
		require.NoError(t, m.Release(t.Context(), uid))
		require.NoDirExists(t, l.Volumes(uid))
	}
	require.Less(t, time.Since(begun), 4*time.Second)
	require.Error(t, <-over, "after the plugin's timeout of a call")
	require.FileExists(t, l.Volume("1", volumecsi.Name, "a.hung")+"/vol_data.json")
	mended.Store(true)
	require.NoError(t, m.Release(t.Context(), "1"))
	require.Contains(t, hung.Calls(), "NodeUnpublishVolume")
	require.NoDirExists(t, l.Volumes("1"))
	w.eventually("unstaged", func() bool { return len(below(t, l)) == 0 })
}

func below(t testing.TB, l volume.Layout) []mounts.Point {
	points, err := (&mounts.Kernel{}).Below(t.Context(), l.Root)
	require.NoError(t, err)
	return points
}

// The driver is started again while a pod has a volume, and the agent with it: nothing is
// unmounted, and the next agent takes it away by what is on the disk.
func TestDriverAndAgentRestart(t *testing.T) {
	root(t)
	w := newWorld(t)
	d := w.start(&csitest.Driver{Name: "d", Stages: true})
	w.eventually("registered", func() bool { return w.Driver("d") != nil })
	l := layout(t)
	path := volume.Mounted{Path: l.Volume("1", volumecsi.Name, "a.d") + "/mount"}
	t.Run("first agent", func(t *testing.T) {
		m := manager(t, l, w)
		require.NoError(t, m.Prepare(t.Context(), pod("1", "a.d")))
		require.NoError(t, os.WriteFile(path.Path+"/f", nil, 0o600))
		d.Stop()
		w.eventually("gone", func() bool { return w.Driver("d") == nil })
		require.NoError(t, m.Prepare(t.Context(), pod("1", "a.d")), "what is mounted stays")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, m.Prepare(short, pod("2", "a.d")), `driver "d" is not registered`)
		require.NoError(t, d.Start())
		w.eventually("back", func() bool { return w.Driver("d") != nil })
		require.Eventually(t, func() bool { return m.Prepare(t.Context(), pod("2", "a.d")) == nil }, 20*time.Second, 10*time.Millisecond)
	})
	require.NoError(t, isMounted(path))
	require.FileExists(t, path.Path+"/f")
	m := manager(t, l, w)
	require.NoError(t, m.Release(t.Context(), "1"))
	require.FileExists(t, l.Volume("2", volumecsi.Name, "a.d")+"/mount/f")
	require.NoError(t, m.Release(t.Context(), "2"))
	w.eventually("unstaged", func() bool {
		ids, err := must(plugin(l, w)).Staged(t.Context())
		return err == nil && len(ids) == 0
	})
	require.Empty(t, below(t, l))
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// V21: a call that is refused leaves nothing.
func TestV21Refused(t *testing.T) {
	root(t)
	w := newWorld(t)
	w.start(&csitest.Driver{Name: "d", Stages: true, Fault: func(_ context.Context, method string) error {
		if method == "NodePublishVolume" {
			return status.Error(codes.InvalidArgument, "no such thing")
		}
		return nil
	}})
	w.eventually("registered", func() bool { return w.Driver("d") != nil })
	l := layout(t)
	m := manager(t, l, w)
	require.ErrorContains(t, m.Prepare(t.Context(), pod("1", "a.d")), "no such thing")
	require.NoDirExists(t, l.Volume("1", volumecsi.Name, "a.d"))
	require.NoError(t, m.Release(t.Context(), "1"))
	w.eventually("unstaged", func() bool { return len(below(t, l)) == 0 })
}

// A driver that says that it has unmounted and has not loses nobody's files.
func TestLies(t *testing.T) {
	root(t)
	w := newWorld(t)
	var lies atomic.Bool
	w.start(&csitest.Driver{Name: "d", Stages: true, Lie: func(string) bool { return lies.Load() }})
	w.eventually("registered", func() bool { return w.Driver("d") != nil })
	l := layout(t)
	m := manager(t, l, w)
	require.NoError(t, m.Prepare(t.Context(), pod("1", "a.d")))
	file := l.Volume("1", volumecsi.Name, "a.d") + "/mount/f"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	lies.Store(true)
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorContains(t, m.Release(short, "1"), "driver d says that the volume is unpublished")
	require.FileExists(t, file)
	lies.Store(false)
	require.Eventually(t, func() bool { return m.Release(t.Context(), "1") == nil }, 20*time.Second, 10*time.Millisecond)
	w.eventually("unstaged", func() bool { return len(below(t, l)) == 0 })
}

// What a driver says about a volume arrives.
func TestStatsAndSize(t *testing.T) {
	root(t)
	w := newWorld(t)
	w.start(&csitest.Driver{Name: "d", Stages: true})
	w.eventually("registered", func() bool { return w.Driver("d") != nil })
	l := layout(t)
	m := manager(t, l, w)
	require.NoError(t, m.Prepare(t.Context(), pod("1", "a.d")))
	p := must(plugin(l, w))
	stats, ok, err := p.Usage(t.Context(), l.Volume("1", volumecsi.Name, "a.d"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Positive(t, stats.Capacity)
	require.Positive(t, stats.TotalFiles)
	require.NoError(t, m.Release(t.Context(), "1"))
	w.eventually("unstaged", func() bool { return len(below(t, l)) == 0 })
}

var _ volumecsi.Drivers = (*csi.Registry)(nil)

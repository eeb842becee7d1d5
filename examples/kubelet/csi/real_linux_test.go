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

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/csi"
	"github.com/podwright/podwright/examples/kubelet/csi/csitest"
	"github.com/podwright/podwright/volume"
	volumecsi "github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/manager"
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

// objects allows inline volumes for every driver.
type objects struct{}

func (objects) CSIDriver(string) (*storagev1.CSIDriver, error) {
	return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{
		AttachRequired: new(false), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{"Persistent", "Ephemeral"},
	}}, nil
}

// layout returns an agent's folder. Everything mounted in it is unmounted at the end.
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

// isMounted checks that the volume is mounted.
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

// The contract of plugins holds with a real driver over its socket. Package volume/csi tests all
// kinds of drivers and volumes.
func TestContract(t *testing.T) {
	root(t)
	if testing.Short() {
		t.Skip("mounts and unmounts for seconds")
	}
	for name, spec := range map[string]func(driver, name string) *volume.Spec{"persistent": persistent, "inline": inline} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var broken atomic.Bool
			w.start(&csitest.Driver{Name: "d", Stages: true, Fault: func(_ context.Context, method string) error {
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
					Spec:   func(_ *v1.Pod, name string) *volume.Spec { return spec("d", name) },
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

func newManager(t *testing.T, l volume.Layout, d volumecsi.Drivers) *manager.Manager {
	p, err := plugin(l, d)
	require.NoError(t, err)
	m, err := manager.New(manager.Config{
		Plugins: []volume.Plugin{p}, Layout: l, Claims: claims{}, Complete: func() bool { return true },
		OperationTimeout: 10 * time.Second,
	})
	require.NoError(t, err)
	apitest.Run(t, m.Run)
	return m
}

// claims resolves claims named "volume.driver".
type claims struct{}

func (claims) Resolve(_ context.Context, _ *v1.Pod, v v1.Volume) (*volume.Spec, error) {
	name := v.PersistentVolumeClaim.ClaimName
	driver := filepath.Ext(name)[1:]
	return persistent(driver, name), nil
}

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

// If driver and agent restart while a pod has a volume, it stays mounted. The next agent unmounts
// it from the information on the disk.
func TestDriverAndAgentRestart(t *testing.T) {
	root(t)
	w := newWorld(t)
	d := w.start(&csitest.Driver{Name: "d", Stages: true})
	w.eventually("registered", func() bool { return w.Driver("d") != nil })
	l := layout(t)
	path := volume.Mounted{Path: l.Volume("1", volumecsi.Name, "a.d") + "/mount"}
	t.Run("first agent", func(t *testing.T) {
		m := newManager(t, l, w)
		require.NoError(t, m.Prepare(t.Context(), pod("1", "a.d")))
		require.NoError(t, os.WriteFile(path.Path+"/f", nil, 0o600))
		d.Stop()
		w.eventually("gone", func() bool { return w.Driver("d") == nil })
		require.NoError(t, m.Prepare(t.Context(), pod("1", "a.d")), "mounts stay")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, m.Prepare(short, pod("2", "a.d")), `driver "d" is not registered`)
		require.NoError(t, d.Start())
		w.eventually("back", func() bool { return w.Driver("d") != nil })
		require.Eventually(t, func() bool { return m.Prepare(t.Context(), pod("2", "a.d")) == nil }, time.Minute, 10*time.Millisecond)
	})
	require.NoError(t, isMounted(path))
	require.FileExists(t, path.Path+"/f")
	stats, ok, err := must(plugin(l, w)).Usage(t.Context(), l.Volume("1", volumecsi.Name, "a.d"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Positive(t, stats.Capacity)
	require.Positive(t, stats.TotalFiles)
	m := newManager(t, l, w)
	require.NoError(t, m.Release(t.Context(), "1"))
	require.FileExists(t, l.Volume("2", volumecsi.Name, "a.d")+"/mount/f")
	require.NoError(t, m.Release(t.Context(), "2"))
	w.eventually("unstaged", func() bool {
		ids, err := must(plugin(l, w)).Staged(t.Context())
		return err == nil && len(ids) == 0
	})
	points, err := (&mounts.Kernel{}).Below(t.Context(), l.Root)
	require.NoError(t, err)
	require.Empty(t, points)
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

var _ volumecsi.Drivers = (*csi.Registry)(nil)

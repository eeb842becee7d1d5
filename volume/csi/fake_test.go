package csi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a driver whose volumes are folders.
type fake struct {
	can   csi.Capabilities
	fault func(ctx context.Context, method string) error
	// after is called after the effect of each call.
	after func(ctx context.Context, method string) error

	mu      sync.Mutex
	calls   []string
	stage   csi.StageRequest
	publish csi.PublishRequest
	expand  csi.ExpandRequest
}

// call records a call. It calls note under the lock, and effect unless fault fails. Both are
// optional.
func (f *fake) call(ctx context.Context, method string, note func(), effect func() error) error {
	f.mu.Lock()
	f.calls = append(f.calls, method)
	if note != nil {
		note()
	}
	f.mu.Unlock()
	if f.fault != nil {
		if err := f.fault(ctx, method); err != nil {
			return err
		}
	}
	if ctx.Err() != nil || effect == nil {
		return ctx.Err()
	}
	if err := effect(); err != nil || f.after == nil {
		return err
	}
	return f.after(ctx, method)
}

func (f *fake) count(method string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c == method {
			n++
		}
	}
	return n
}

func (f *fake) Capabilities(ctx context.Context) (csi.Capabilities, error) {
	return f.can, f.call(ctx, "Capabilities", nil, nil)
}

func (f *fake) Stage(ctx context.Context, r csi.StageRequest) error {
	return f.call(ctx, "Stage", func() { f.stage = r }, func() error { return createPath(r.StagingPath+"/staged", false) })
}

func (f *fake) Unstage(ctx context.Context, _, path string) error {
	return f.call(ctx, "Unstage", nil, func() error { return fs.RemoveOne(path + "/staged") })
}

func (f *fake) Publish(ctx context.Context, r csi.PublishRequest) error {
	return f.call(ctx, "Publish", func() { f.publish = r }, func() error { return createPath(r.TargetPath, !r.Capability.Block) })
}

func (f *fake) Unpublish(ctx context.Context, _, path string) error {
	return f.call(ctx, "Unpublish", nil, func() error { return fs.RemoveOne(path) })
}

func (f *fake) Expand(ctx context.Context, r csi.ExpandRequest) (int64, error) {
	return 0, f.call(ctx, "Expand", func() { f.expand = r }, nil)
}

func (f *fake) Stats(ctx context.Context, _ csi.StatsRequest) (usage.Usage, error) {
	return usage.Usage{Capacity: 100, Bytes: 1}, f.call(ctx, "Stats", nil, nil)
}

func createPath(path string, folder bool) error {
	if folder {
		if err := os.Mkdir(path, 0o750); !errors.Is(err, os.ErrExist) {
			return err
		}
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

const driver = "example.com"

// drivers has one driver, or none if it is nil.
type drivers struct{ *fake }

func (d drivers) Driver(name string) csi.Driver {
	if d.fake == nil || name != driver {
		return nil
	}
	return d.fake
}

type object storagev1.CSIDriverSpec

func (o object) CSIDriver(name string) (*storagev1.CSIDriver, error) {
	if name != driver {
		return nil, fmt.Errorf("%s: %w", name, volume.ErrNotFound)
	}
	return &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec(o)}, nil
}

var both = object{VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{"Persistent", "Ephemeral"}}

type fixture struct {
	*testing.T
	*csi.Plugin
	fake   *fake
	cfg    csi.Config
	layout volume.Layout
}

func newFixture(t *testing.T, change ...func(*csi.Config)) *fixture {
	w := &fixture{T: t, fake: &fake{can: csi.Capabilities{Stage: true}}, layout: volume.Layout{Root: t.TempDir()}}
	w.cfg = csi.Config{Layout: w.layout, NodeName: "node", Drivers: drivers{w.fake}, CSIDrivers: both, Mounts: &mounts.Memory{}}
	for _, c := range change {
		c(&w.cfg)
	}
	w.restart()
	return w
}

func (w *fixture) restart() {
	p, err := csi.New(w.cfg)
	require.NoError(w, err)
	w.Plugin = p
}

func pod(uid types.UID) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: uid},
		Spec:       v1.PodSpec{ServiceAccountName: "robot"},
	}
}

func persistent(mode v1.PersistentVolumeMode) *volume.Spec {
	return &volume.Spec{Name: "pv", Persistent: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
		VolumeMode: &mode, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
			Driver: driver, VolumeHandle: "h/1", VolumeAttributes: map[string]string{"a": "b"},
		}},
	}}}
}

func inline() *volume.Spec {
	return &volume.Spec{Name: "v", Inline: &v1.VolumeSource{CSI: &v1.CSIVolumeSource{
		Driver: driver, VolumeAttributes: map[string]string{"a": "b"},
	}}}
}

func (w *fixture) args(spec *volume.Spec, uid types.UID) volume.Mount {
	m := volume.Mount{Pod: pod(uid), Spec: spec, Dir: w.layout.Volume(uid, csi.Name, spec.Name)}
	if spec.Block() {
		m.Dir = w.layout.Device(uid, csi.Name, spec.Name)
	}
	return m
}

func (w *fixture) mount(m volume.Mount) (out volume.Mounted, err error) {
	if id := w.VolumeID(m.Spec); id != "" {
		if m.Staged, err = w.Stage(w.Context(), volume.Stage{ID: id, Spec: m.Spec, FSGroup: m.FSGroup}); err != nil {
			return out, err
		}
	}
	require.NoError(w, os.MkdirAll(parent(m.Dir), 0o750))
	return w.Mount(w.Context(), m)
}

func (w *fixture) mounted(m volume.Mount) volume.Mounted {
	w.Helper()
	out, err := w.mount(m)
	require.NoError(w, err)
	return out
}

func (w *fixture) unmount(m volume.Mount) error {
	return w.Unmount(w.Context(), volume.Unmount{Pod: m.Pod.UID, Name: m.Spec.Name, Dir: m.Dir, Block: m.Spec.Block()})
}

package projected

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/emptydir"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/objects"
	"github.com/podwright/podwright/volume/volumetest"
)

type kind struct {
	source v1.VolumeSource
	file   string
}

func kinds() map[string]kind {
	mode := p(int32(0o644))
	return map[string]kind{
		configMapName:   {v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: ref("n"), DefaultMode: mode}}, "a"},
		secretName:      {v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "n", DefaultMode: mode}}, "b"},
		downwardAPIName: {v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{DefaultMode: mode, Items: fromPod.DownwardAPI.Items}}, "pod/name"},
		projectedName:   {projection(fromConfigMap, fromSecret, fromPod, fromAccount), "token"},
	}
}

// All four plugins pass the suite of volumetest. With -short only one is tested, because they
// share the code.
func TestConformance(t *testing.T) {
	for name := range kinds() {
		if testing.Short() && name != projectedName {
			continue
		}
		t.Run(name, func(t *testing.T) {
			memory := &mounts.Memory{}
			conform(t, name, func() volume.Plugin { return emptydir.New(emptydir.Config{Mounts: memory}) })
		})
	}
}

func conform(t *testing.T, name string, backing func() volume.Plugin) {
	volumetest.Run(t, func(t testing.TB) volumetest.Subject { return kinds()[name].subject(t, name, backing) })
}

func (k kind) subject(t testing.TB, plugin string, backing func() volume.Plugin) volumetest.Subject {
	o := &objects.Memory{}
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "n"}
	o.PutConfigMap(&v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "config"}})
	o.PutSecret(&v1.Secret{ObjectMeta: meta, StringData: map[string]string{"b": "secret"}})
	o.PutToken("ns", "default", objects.Token{Value: "t"})
	var broken error
	open := func() (volume.Plugin, error) {
		plugins, err := New(Config{Backing: failing{backing(), &broken}, ConfigMaps: o, Secrets: o, Tokens: o})
		if err != nil {
			return nil, err
		}
		return plugins[slices.IndexFunc(plugins, func(p volume.Plugin) bool { return p.Name() == plugin })], nil
	}
	version := "..2026_01_01_00_00_00.1"
	return volumetest.Subject{
		Layout: volume.Layout{Root: t.TempDir()},
		Open:   open,
		Spec: func(_ *v1.Pod, name string) *volume.Spec {
			source := k.source
			return &volume.Spec{Name: name, Inline: &source}
		},
		Check: func(m volume.Mounted) error {
			_, err := os.ReadFile(filepath.Join(m.Path, k.file))
			return err
		},
		Halfway: map[string]func(volume.Mount) error{
			"half a version": func(m volume.Mount) error { return os.MkdirAll(filepath.Join(m.Dir, version, "x"), 0o755) },
			"link to nothing": func(m volume.Mount) error {
				return in(m, func() error { return os.Symlink(version, filepath.Join(m.Dir, "..data")) })
			},
			"link before swap": func(m volume.Mount) error {
				return in(m, func() error { return os.Symlink(version, filepath.Join(m.Dir, "..data_tmp")) })
			},
			"marker, no folder": func(m volume.Mount) error {
				return os.MkdirAll(filepath.Join(filepath.Dir(filepath.Dir(m.StateDir)), "kubernetes.io~empty-dir", "wrapped_"+m.Spec.Name), 0o750)
			},
		},
		Fail: func() func() {
			broken = errors.New("broken")
			return func() { broken = nil }
		},
	}
}

func in(m volume.Mount, do func() error) error {
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return err
	}
	return do()
}

// failing is a plugin whose mounts fail with *err unless it is nil.
type failing struct {
	volume.Plugin
	err *error
}

func (f failing) Mount(ctx context.Context, m volume.Mount) (volume.Mounted, error) {
	if *f.err != nil {
		return volume.Mounted{}, *f.err
	}
	return f.Plugin.Mount(ctx, m)
}

package emptydir_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/emptydir"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/volumetest"
)

func TestPlugin(t *testing.T) {
	each(t, func(t *testing.T, m mounts.Mounter) {
		for _, medium := range []v1.StorageMedium{v1.StorageMediumDefault, v1.StorageMediumMemory} {
			t.Run("medium "+string(medium), func(t *testing.T) {
				volumetest.Run(t, func(t testing.TB) volumetest.Subject {
					layout := volume.Layout{Root: t.TempDir()}
					t.Cleanup(func() {
						points, _ := m.Below(context.Background(), layout.Root)
						for i := range points {
							_ = m.Detach(context.Background(), points[len(points)-1-i].Path)
						}
					})
					return volumetest.Subject{
						Layout: layout,
						Open:   func() (volume.Plugin, error) { return emptydir.New(emptydir.Config{Mounts: m}), nil },
						Spec: func(_ *v1.Pod, name string) *volume.Spec {
							return &volume.Spec{Name: name, Inline: &v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: medium}}}
						},
					}
				})
			})
		}
	})
}

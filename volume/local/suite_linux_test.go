package local_test

import (
	"context"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/local"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/volumetest"
)

// contract runs the suite on folders or devices that are made for each volume.
func contract(t *testing.T, m mounts.Mounter, mode v1.PersistentVolumeMode, path func(t testing.TB) string) {
	volumetest.Run(t, func(t testing.TB) volumetest.Subject {
		layout, at := volume.Layout{Root: t.TempDir()}, path(t)
		open := func() (volume.Plugin, error) { return local.New(local.Config{Layout: layout, Mounts: m}) }
		t.Cleanup(func() {
			points, _ := m.Below(context.Background(), layout.Root)
			for i := range points {
				_ = m.Detach(context.Background(), points[len(points)-1-i].Path)
			}
			p, _ := local.New(local.Config{Layout: layout, Mounts: m})
			ids, _ := p.Staged(context.Background())
			for _, id := range ids {
				_ = p.Unstage(context.Background(), id)
			}
		})
		return volumetest.Subject{
			Layout: layout,
			Open:   open,
			Spec: func(_ *v1.Pod, name string) *volume.Spec {
				return &volume.Spec{Name: name, Persistent: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
					VolumeMode:             &mode,
					PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: at}},
				}}}
			},
		}
	})
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

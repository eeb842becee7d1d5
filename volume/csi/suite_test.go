package csi_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/volumetest"
)

func parent(path string) string { return filepath.Dir(path) }

// tree lists the files and empty folders below a folder.
func tree(t testing.TB, root string) (out []string) {
	var last string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			last, _ = filepath.Rel(root, path)
			out = append(out, last)
		}
		return nil
	}))
	return out
}

func TestContract(t *testing.T) {
	files := func() *volume.Spec { return persistent(v1.PersistentVolumeFilesystem) }
	device := func() *volume.Spec { return persistent(v1.PersistentVolumeBlock) }
	unknown := func(err error) error { return err }
	for _, c := range []struct {
		name  string
		stage bool
		kind  func(error) error
		spec  func() *volume.Spec
	}{
		{"files, staged", true, csi.Final, files},
		{"files", false, unknown, files},
		{"device, staged", true, unknown, device},
		{"inline", false, csi.Final, inline},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.name != "files, staged" {
				t.Skip("TestKilledInEveryCall has all kinds")
			}
			t.Parallel()
			contract(t, csi.Capabilities{Stage: c.stage}, c.kind, c.spec)
		})
	}
}

func contract(t *testing.T, can csi.Capabilities, kind func(error) error, spec func() *volume.Spec) {
	volumetest.Run(t, func(t testing.TB) volumetest.Subject {
		layout := volume.Layout{Root: t.TempDir()}
		var broken atomic.Bool
		f := &fake{can: can, fault: func(_ context.Context, method string) error {
			if broken.Load() && (method == "Publish" || method == "Stage") {
				return kind(errors.New("broken"))
			}
			return nil
		}}
		return volumetest.Subject{
			Layout: layout,
			Open: func() (volume.Plugin, error) {
				return csi.New(csi.Config{
					Layout: layout, NodeName: "node", Drivers: drivers{f}, CSIDrivers: both, Mounts: &mounts.Memory{},
				})
			},
			Spec: func(_ *v1.Pod, name string) *volume.Spec {
				s := spec()
				s.Name = name
				if s.Persistent != nil {
					s.Persistent.Spec.CSI.VolumeHandle = "handle of " + name
				}
				return s
			},
			Data: func(volume.Mounted) string { return "" }, // no storage
			Fail: func() (mend func()) {
				broken.Store(true)
				return func() { broken.Store(false) }
			},
		}
	})
}

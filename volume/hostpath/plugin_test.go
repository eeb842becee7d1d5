package hostpath_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/hostpath"
	"github.com/podwright/podwright/volume/volumetest"
)

// V14 in the plugin: errors contain the field and are final, so that no unmount follows.
func TestPlugin(t *testing.T) {
	var p hostpath.Plugin
	dir := t.TempDir()
	spec := func(path string, kind v1.HostPathType) *volume.Spec {
		return &volume.Spec{Name: "v", Inline: &v1.VolumeSource{HostPath: source(path, kind)}}
	}
	got, err := p.Mount(t.Context(), volume.Mount{Spec: spec(dir+"/", v1.HostPathDirectory)})
	require.NoError(t, err)
	require.Equal(t, volume.Mounted{Path: dir}, got)
	for want, s := range map[string]*volume.Spec{
		`hostPath.type: "File": ` + dir: spec(dir, v1.HostPathFile),
		"hostPath.path: stat":           spec(filepath.Join(dir, "x"), v1.HostPathFile),
		"hostPath.path: open":           spec(filepath.Join(dir, "x", "y"), v1.HostPathFileOrCreate),
		"hostPath.path: \"a\"":          spec("a", v1.HostPathUnset),
		`hostPath.type: "Odd"`:          spec(dir, "Odd"),
	} {
		_, err := p.Mount(t.Context(), volume.Mount{Spec: s})
		require.ErrorContains(t, err, want)
		require.NotErrorIs(t, err, volume.ErrUncertain)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Mount(ended, volume.Mount{Spec: spec(dir, "")})
	require.ErrorIs(t, err, context.Canceled)

	persistent := &volume.Spec{Name: "pv", ReadOnly: true, Persistent: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: source(dir, "")},
	}}}
	require.True(t, p.Supports(persistent))
	got, err = p.Mount(t.Context(), volume.Mount{Spec: persistent})
	require.NoError(t, err)
	require.Equal(t, volume.Mounted{Path: dir, ReadOnly: true}, got)
	require.NoError(t, p.Unmount(t.Context(), volume.Unmount{Dir: dir}))
	require.DirExists(t, dir)
	require.False(t, p.Supports(&volume.Spec{Inline: &v1.VolumeSource{}}))
	require.False(t, p.Supports(&volume.Spec{Persistent: &v1.PersistentVolume{}}))
}

func TestContract(t *testing.T) {
	volumetest.Run(t, func(t testing.TB) volumetest.Subject {
		host := t.TempDir()
		return volumetest.Subject{
			Layout: volume.Layout{Root: t.TempDir()},
			Open:   func() (volume.Plugin, error) { return &hostpath.Plugin{}, nil },
			Spec: func(_ *v1.Pod, name string) *volume.Spec {
				return &volume.Spec{Name: name, Inline: &v1.VolumeSource{HostPath: source(host, v1.HostPathDirectory)}}
			},
		}
	})
}

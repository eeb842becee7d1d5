package subpath_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/emptydir"
	"github.com/podwright/podwright/volume/hostpath"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/objects"
	"github.com/podwright/podwright/volume/projected"
	"github.com/podwright/podwright/volume/subpath"
)

// Modes and groups in volumes of each kind are equal to upstream's, without and with the fsGroup
// 2000. The path "new" is a missing sub path, "nested" the mount point of another volume.
func TestModesInVolumes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	defer syscall.Umask(syscall.Umask(0o022))
	mode, create := int32(0o400), v1.HostPathDirectoryOrCreate
	named := v1.LocalObjectReference{Name: "n"}
	fromPod := []v1.DownwardAPIVolumeFile{{Path: "d/f", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
	items := []v1.KeyToPath{{Key: "f", Path: "d/f"}}
	onDisk := map[string]string{".": "drwxrwxrwx 0, dgrwxrwxrwx 2000", "new": "drwxrwxrwx 0, dgrwxrwxrwx 2000"}
	inMemory := map[string]string{".": "dtrwxrwxrwx 0, dgtrwxrwxrwx 2000", "new": "dtrwxrwxrwx 0, dgtrwxrwxrwx 2000"}
	files := map[string]string{"d": "drwxr-xr-x 0, dgrwxr-xr-x 2000", "d/f": "-r-------- 0, -r--r----- 2000", "nested": "drwxr-xr-x 0, dgrwxr-xr-x 2000"}
	token := map[string]string{"token": "-r-------- 0, -rw-r----- 2000"}
	for name, test := range map[string]struct {
		source v1.VolumeSource
		want   []map[string]string
	}{
		"emptyDir": {v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, []map[string]string{onDisk}},
		"memory":   {v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}, []map[string]string{inMemory}},
		"hostPath": {
			v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: filepath.Join(t.TempDir(), "h"), Type: &create}},
			[]map[string]string{{".": "drwxr-xr-x 0, drwxr-xr-x 0", "new": "drwxr-xr-x 0, drwxr-xr-x 0"}},
		},
		"configMap": {
			v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named, DefaultMode: &mode, Items: items}},
			[]map[string]string{onDisk, files},
		},
		"secret": {
			v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "n", DefaultMode: &mode, Items: items}},
			[]map[string]string{inMemory, files},
		},
		"downwardAPI": {
			v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{DefaultMode: &mode, Items: fromPod}},
			[]map[string]string{inMemory, files},
		},
		"projected": {
			v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []v1.VolumeProjection{
				{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: named, Items: items}},
				{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
			}}},
			[]map[string]string{inMemory, files, token},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plain, grouped := mountedVolume(t, test.source, nil), mountedVolume(t, test.source, new(int64(2000)))
			for _, paths := range test.want {
				for path, want := range paths {
					require.Equal(t, want, modeAndGroup(t, plain, path)+", "+modeAndGroup(t, grouped, path), path)
				}
			}
		})
	}
}

// mountedVolume mounts a volume, prepares its sub path "new" and returns the volume's path.
func mountedVolume(t *testing.T, source v1.VolumeSource, group *int64) string {
	o, layout, memory := &objects.Memory{}, volume.Layout{Root: t.TempDir()}, &mounts.Memory{}
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "n"}
	o.PutConfigMap(&v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"f": "text"}})
	o.PutSecret(&v1.Secret{ObjectMeta: meta, StringData: map[string]string{"f": "text"}})
	o.PutToken("ns", "default", objects.Token{Value: "t"})
	backing := emptydir.New(emptydir.Config{Mounts: memory})
	plugins, err := projected.New(projected.Config{Backing: backing, ConfigMaps: o, Secrets: o, Tokens: o})
	require.NoError(t, err)
	spec := &volume.Spec{Name: "v", Inline: &source}
	for _, p := range append(plugins, backing, &hostpath.Plugin{}) {
		if !p.Supports(spec) {
			continue
		}
		m := volume.Mount{
			Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "ns"}}, Spec: spec, FSGroup: group,
			Dir: layout.Volume("u", p.Name(), "v"), StateDir: layout.State("u", p.Name(), "v"), Inside: []string{"nested"},
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(m.Dir), 0o750))
		mounted, err := p.Mount(t.Context(), m)
		require.NoError(t, err)
		parts, err := subpath.New(subpath.Config{Layout: layout, Mounts: memory})
		require.NoError(t, err)
		_, err = parts.Prepare(t.Context(), volume.SubPath{PodUID: "u", Container: "c", Volume: "v", VolumePath: mounted.Path, Path: "new"})
		require.NoError(t, err)
		return mounted.Path
	}
	require.FailNow(t, "no plugin")
	return ""
}

func modeAndGroup(t *testing.T, dir, path string) string {
	info, err := os.Stat(filepath.Join(dir, path))
	require.NoError(t, err)
	return fmt.Sprint(info.Mode(), " ", info.Sys().(*syscall.Stat_t).Gid)
}

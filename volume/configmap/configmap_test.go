package configmap_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/configmap"
	"github.com/podwright/podwright/volume/content"
	"github.com/podwright/podwright/volume/internal/testbacking"
	"github.com/podwright/podwright/volume/objects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func p[T any](v T) *T { return &v }

func web(colour string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Data: map[string]string{"colour": colour}}
}

var pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "shop"}}

func source(optional bool) v1.VolumeSource {
	return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
		LocalObjectReference: v1.LocalObjectReference{Name: "web"}, DefaultMode: p(int32(0o644)), Optional: &optional,
	}}
}

type room struct {
	objects *objects.Memory
	backing *testbacking.Plugin
	plugin  *content.Plugin
}

func newRoom(t testing.TB) *room {
	r := &room{&objects.Memory{}, &testbacking.Plugin{}, nil}
	volumes, err := content.New(content.Config{Backing: r.backing})
	require.NoError(t, err)
	r.plugin, err = configmap.New(configmap.Config{Volumes: volumes, ConfigMaps: r.objects})
	require.NoError(t, err)
	return r
}

func Example() {
	root, _ := os.MkdirTemp("", "kubelet")
	defer os.RemoveAll(root)
	configMaps := &objects.Memory{}
	configMaps.PutConfigMap(web("blue"))
	volumes, _ := content.New(content.Config{Backing: &testbacking.Plugin{}}) // in an agent: the plugin for emptyDir volumes
	plugin, _ := configmap.New(configmap.Config{Volumes: volumes, ConfigMaps: configMaps})

	layout, volumeSource := volume.Layout{Root: root}, source(false)
	m := volume.Mount{
		Pod: pod, Spec: &volume.Spec{Name: "config", Inline: &volumeSource},
		Dir: layout.Volume(pod.UID, plugin.Name(), "config"), StateDir: layout.State(pod.UID, plugin.Name(), "config"),
	}
	mounted, err := plugin.Mount(context.Background(), m)
	text, _ := os.ReadFile(filepath.Join(mounted.Path, "colour"))
	fmt.Println(string(text), err)
	fmt.Println(plugin.Objects(pod, m.Spec))
	// Output:
	// blue <nil>
	// [ConfigMap shop/web]
}

// V3, V8: updates are seen, failures are not.
func TestLife(t *testing.T) {
	r := newRoom(t)
	m := testbacking.MountOf(t, configmap.Name, pod, "v", source(false))
	require.True(t, r.plugin.Supports(m.Spec))
	require.True(t, r.plugin.Remounts(m.Spec))
	r.objects.PutConfigMap(web("blue"))
	mounted, err := r.plugin.Mount(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, volume.Mounted{Path: m.Dir, ReadOnly: true, Relabel: true}, mounted)
	require.Equal(t, map[string]string{"colour": "0644 blue"}, testbacking.Files(t, m.Dir))
	require.Equal(t, v1.StorageMediumDefault, r.backing.MediumOfLast())

	m.Again = true
	r.objects.PutConfigMap(web("red"))
	_, err = r.plugin.Mount(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"colour": "0644 red"}, testbacking.Files(t, m.Dir))

	r.objects.Fail = func(volume.Object) error { return errors.New("the server is gone") }
	_, err = r.plugin.Mount(t.Context(), m)
	require.EqualError(t, err, "configMap: the server is gone")
	require.ErrorIs(t, err, volume.ErrTransient)
	require.Equal(t, map[string]string{"colour": "0644 red"}, testbacking.Files(t, m.Dir), "V8")

	for range 2 {
		require.NoError(t, r.plugin.Unmount(t.Context(), volume.Unmount{Pod: pod.UID, Name: "v", Dir: m.Dir, StateDir: m.StateDir}))
		require.NoDirExists(t, m.Dir)
	}
}

// V7: nothing is mounted for an object that is not there, unless it is optional.
func TestMissing(t *testing.T) {
	r := newRoom(t)
	m := testbacking.MountOf(t, configmap.Name, pod, "v", source(false))
	_, err := r.plugin.Mount(t.Context(), m)
	require.ErrorIs(t, err, volume.ErrNotFound)
	require.NoDirExists(t, m.Dir)
	require.Zero(t, r.backing.Mounts.Load())
	*m.Spec.Inline.ConfigMap.Optional = true
	_, err = r.plugin.Mount(t.Context(), m)
	require.NoError(t, err)
	require.Empty(t, testbacking.Files(t, m.Dir))
	r.objects.PutConfigMap(web("blue"))
	_, err = r.plugin.Mount(t.Context(), m)
	require.NoError(t, err)
	require.Len(t, testbacking.Files(t, m.Dir), 1)
	r.objects.Remove(r.plugin.Objects(pod, m.Spec)[0])
	_, err = r.plugin.Mount(t.Context(), m)
	require.NoError(t, err)
	require.Empty(t, testbacking.Files(t, m.Dir))
}

// V6: a key that is no file name mounts nothing.
func TestBadKey(t *testing.T) {
	r := newRoom(t)
	m := testbacking.MountOf(t, configmap.Name, pod, "v", source(false))
	bad := web("")
	bad.Data["..y"] = "x"
	r.objects.PutConfigMap(bad)
	_, err := r.plugin.Mount(t.Context(), m)
	require.ErrorContains(t, err, `path "..y" begins with ".."`)
	require.NoDirExists(t, m.Dir)
}

func TestNew(t *testing.T) {
	_, err := configmap.New(configmap.Config{})
	require.EqualError(t, err, "configmap: Config.Volumes is required")
	volumes, err := content.New(content.Config{Backing: &testbacking.Plugin{}})
	require.NoError(t, err)
	_, err = configmap.New(configmap.Config{Volumes: volumes})
	require.EqualError(t, err, "configmap: Config.ConfigMaps is required")
	_, err = content.NewPlugin(volumes, content.Kind{})
	require.ErrorContains(t, err, "content: Kind.")
}

package projected

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
)

func web(colour string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Data: map[string]string{"colour": colour}}
}

func configMapSource() v1.VolumeSource {
	return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: ref("web"), DefaultMode: p(int32(0o644)), Optional: p(false)}}
}

// V3, V8: updates become visible; a failed read keeps the content.
func TestConfigMapLife(t *testing.T) {
	backing := newBacking()
	r := newPluginFixtureOn(t, backing)
	plugin, m := r.plugins[configMapName], mountOf(t, configMapName, configMapSource())
	require.True(t, plugin.Supports(m.Spec))
	require.True(t, plugin.Remounts(m.Spec))
	require.Equal(t, []volume.Object{{Kind: objects.KindConfigMap, Namespace: "ns", Name: "web"}}, plugin.Objects(pod, m.Spec))
	r.objects.PutConfigMap(web("blue"))
	mounted, err := plugin.Mount(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, volume.Mounted{Path: m.Dir, ReadOnly: true, Relabel: true}, mounted)
	require.Equal(t, map[string]string{"colour": "0644 blue"}, filesOf(t, m.Dir))
	require.Equal(t, v1.StorageMediumDefault, backing.medium)

	m.Again = true
	r.objects.PutConfigMap(web("red"))
	_, err = plugin.Mount(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"colour": "0644 red"}, filesOf(t, m.Dir))

	r.objects.Fail = func(volume.Object) error { return errors.New("the server is unreachable") }
	_, err = plugin.Mount(t.Context(), m)
	require.EqualError(t, err, "configMap: the server is unreachable")
	require.ErrorIs(t, err, volume.ErrTransient)
	require.Equal(t, map[string]string{"colour": "0644 red"}, filesOf(t, m.Dir), "V8")

	for range 2 {
		require.NoError(t, plugin.Unmount(t.Context(), volume.Unmount{Pod: pod.UID, Name: "v", Dir: m.Dir, StateDir: m.StateDir}))
		require.NoDirExists(t, m.Dir)
	}
}

// V7: a volume with a missing object is not mounted, unless the object is optional.
func TestMissingConfigMap(t *testing.T) {
	backing := newBacking()
	r := newPluginFixtureOn(t, backing)
	plugin, m := r.plugins[configMapName], mountOf(t, configMapName, configMapSource())
	_, err := plugin.Mount(t.Context(), m)
	require.ErrorIs(t, err, volume.ErrNotFound)
	require.NoDirExists(t, m.Dir)
	require.Zero(t, backing.mounted)
	*m.Spec.Inline.ConfigMap.Optional = true
	for _, put := range []func(){
		func() {}, func() { r.objects.PutConfigMap(web("blue")) }, func() { r.objects.Remove(plugin.Objects(pod, m.Spec)[0]) },
	} {
		put()
		_, err = plugin.Mount(t.Context(), m)
		require.NoError(t, err)
		want := 0
		if _, err := r.objects.ConfigMap(t.Context(), "ns", "web"); err == nil {
			want = 1
		}
		require.Len(t, filesOf(t, m.Dir), want)
	}
}

// V9: files have the modes of the source. V7: a missing secret or key is an error.
func TestSecret(t *testing.T) {
	backing := newBacking()
	r := newPluginFixtureOn(t, backing)
	plugin, m := r.plugins[secretName], mountOf(t, secretName, v1.VolumeSource{Secret: &v1.SecretVolumeSource{
		SecretName: "tls", DefaultMode: p(int32(0o400)),
		Items: []v1.KeyToPath{{Key: "key", Path: "private/key"}, {Key: "crt", Path: "crt", Mode: p(int32(0o440))}},
	}})
	require.True(t, plugin.Supports(m.Spec))
	require.False(t, plugin.Supports(&volume.Spec{Inline: &v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}}))
	_, err := plugin.Mount(t.Context(), m)
	require.EqualError(t, err, `secret: secret "ns/tls" not found`)
	require.Zero(t, backing.mounted, "no tmpfs was mounted")

	r.objects.PutSecret(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "tls"}, StringData: map[string]string{"key": "k", "crt": "c", "more": "m"}})
	_, err = plugin.Mount(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"private/key": "0400 k", "crt": "0440 c"}, filesOf(t, m.Dir))
	require.Equal(t, v1.StorageMediumMemory, backing.medium)
	require.Equal(t, []volume.Object{{Kind: objects.KindSecret, Namespace: "ns", Name: "tls"}}, plugin.Objects(pod, m.Spec))
}

// Changed labels are visible after the next sync.
func TestDownwardAPI(t *testing.T) {
	backing := newBacking()
	r := newPluginFixtureOn(t, backing)
	plugin, m := r.plugins[downwardAPIName], mountOf(t, downwardAPIName, v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{
		DefaultMode: p(int32(0o644)), Items: []v1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu"}},
		},
	}})
	require.True(t, plugin.Supports(m.Spec))
	require.True(t, plugin.Remounts(m.Spec))
	require.Empty(t, plugin.Objects(m.Pod, m.Spec))
	for _, colour := range []string{"blue", "red"} {
		m.Pod = pod.DeepCopy()
		m.Pod.Labels, m.Pod.Spec.Containers = map[string]string{"colour": colour}, []v1.Container{{Name: "c"}}
		_, err := plugin.Mount(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"labels": fmt.Sprintf("0644 colour=%q", colour), "cpu": "0644 4"}, filesOf(t, m.Dir))
	}
	require.Equal(t, v1.StorageMediumMemory, backing.medium)
	m.Spec.Inline.DownwardAPI.Items[0].FieldRef.FieldPath = "spec.nodeName"
	_, err := plugin.Mount(t.Context(), m)
	require.EqualError(t, err, `downwardAPI.items[0].fieldRef.fieldPath: "spec.nodeName" is not available in volumes`)
}

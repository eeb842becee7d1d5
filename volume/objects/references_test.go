package objects_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/objects"
)

// One object serves environments, pull secrets and volumes.
var (
	_ request.ConfigMaps  = (*objects.Memory)(nil)
	_ request.Secrets     = (*objects.Memory)(nil)
	_ credentials.Secrets = (*objects.Memory)(nil)
	_ request.ConfigMaps  = (*objects.Dir)(nil)
	_ request.Secrets     = (*objects.Dir)(nil)
	_ credentials.Secrets = (*objects.Dir)(nil)
)

func TestReferences(t *testing.T) {
	ref := func(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }
	name := "roots"
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: v1.PodSpec{
		ImagePullSecrets: []v1.LocalObjectReference{ref("pull"), ref("")},
		InitContainers:   []v1.Container{{EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: ref("from")}}}}},
		Containers: []v1.Container{{
			EnvFrom: []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: ref("from")}}},
			Env: []v1.EnvVar{
				{Name: "plain"},
				{ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: ref("key")}}},
				{ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: ref("key")}}},
			},
		}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
			EnvFrom: []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: ref("debug")}}},
		}}},
		Volumes: []v1.Volume{
			{VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: ref("volume")}}},
			{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "volume"}}},
			{VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "example.com", NodePublishSecretRef: &v1.LocalObjectReference{Name: "csi"}}}},
			{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: ref("projected")}},
				{Secret: &v1.SecretProjection{LocalObjectReference: ref("projected")}},
				{ServiceAccountToken: &v1.ServiceAccountTokenProjection{}},
				{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: &name}},
				{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{SignerName: &name}},
				{DownwardAPI: &v1.DownwardAPIProjection{}},
			}}}},
		},
	}}
	require.Equal(t, []string{
		"CSIDriver example.com", "ClusterTrustBundle ", "ClusterTrustBundle roots",
		"ConfigMap ns/debug", "ConfigMap ns/from", "ConfigMap ns/key", "ConfigMap ns/projected", "ConfigMap ns/volume",
		"Secret ns/csi", "Secret ns/from", "Secret ns/key", "Secret ns/projected", "Secret ns/pull", "Secret ns/volume",
		"ServiceAccount ns/default",
	}, names(objects.References(pod)))
	for i, want := range [][]string{
		{"ConfigMap ns/volume"},
		{"Secret ns/volume"},
		{"CSIDriver example.com", "Secret ns/csi"},
	} {
		require.Equal(t, want, names(objects.VolumeReferences(pod, &pod.Spec.Volumes[i].VolumeSource)))
	}
}

func names(found []volume.Object) (out []string) {
	for _, o := range found {
		out = append(out, o.String())
	}
	return out
}

// The error for a missing object is recognized by IsNotFound, so that optional references work.
func TestIsNotFound(t *testing.T) {
	_, err := (&objects.Memory{}).ConfigMap(t.Context(), "ns", "name")
	require.EqualError(t, err, `configmap "ns/name" not found`)
	require.ErrorIs(t, err, volume.ErrNotFound)
	require.True(t, objects.IsNotFound(err))
	var api interface{ Status() metav1.Status }
	require.ErrorAs(t, err, &api)
	require.Equal(t, metav1.StatusReasonNotFound, api.Status().Reason)
	require.False(t, objects.IsNotFound(errors.New("odd")))
}

func TestMemory(t *testing.T) {
	m := &objects.Memory{}
	var changed []volume.Object
	m.OnChange(func(o []volume.Object) { changed = append(changed, o...) })
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "n"}
	m.PutConfigMap(&v1.ConfigMap{ObjectMeta: meta})
	m.PutSecret(&v1.Secret{ObjectMeta: meta, StringData: map[string]string{"a": "b"}})
	m.PutToken("ns", "n", objects.Token{Value: "t"})
	m.PutTrustBundle("b1", "signer", map[string]string{"x": "y"}, "pem1")
	m.PutTrustBundle("b2", "", nil, "pem2")
	m.PutCSIDriver(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d"}})
	driver, err := m.CSIDriver("d")
	require.NoError(t, err)
	require.Equal(t, "d", driver.Name)
	_, err = m.CSIDriver("e")
	require.True(t, objects.IsNotFound(err))
	secret, err := m.Secret(t.Context(), "ns", "n")
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"a": []byte("b")}, secret.Data)
	token, err := m.Token(t.Context(), objects.TokenRequest{Namespace: "ns", ServiceAccount: "n"})
	require.NoError(t, err)
	require.Equal(t, "t", token.Value)
	pem, err := m.TrustBundle(t.Context(), "b2")
	require.NoError(t, err)
	require.Equal(t, "pem2", pem)
	for want, selector := range map[int]*metav1.LabelSelector{0: nil, 1: {}} {
		of, err := m.TrustBundlesOf(t.Context(), "signer", selector)
		require.NoError(t, err)
		require.Len(t, of, want)
	}
	o := volume.Object{Kind: objects.KindSecret, Namespace: "ns", Name: "n"}
	require.Equal(t, 1, m.Reads(o))
	m.Remove(o)
	_, err = m.Secret(t.Context(), "ns", "n")
	require.True(t, objects.IsNotFound(err))
	require.Len(t, changed, 7)
}

package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	certv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/apiserver/objects"
	volumeobjects "github.com/podwright/podwright/volume/objects"
)

// createObject creates an object as an administrator, and removes it at the end of the test.
func createObject[T apiserver.Object, L runtime.Object](t testing.TB, r apiserver.Resource[T, L], obj T) T {
	created, err := r.Create(t.Context(), obj, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { deleteObject(t, r, obj.GetName()) })
	return created
}

func (n *node) reader(t testing.TB) *objects.Objects {
	r, err := objects.New(objects.Config{Client: n.Client})
	require.NoError(t, err)
	apitest.Run(t, r.Run)
	return r
}

// A node can read only the objects that its pods reference, and sees their changes.
func TestReferencedObjects(t *testing.T) {
	n := newPlane(t).node(t)
	r, name := n.reader(t), n.name
	meta := metav1.ObjectMeta{Namespace: "default", Name: name}
	maps, secrets := n.admin.ConfigMaps("default"), n.admin.Secrets("default")
	createObject(t, maps, &v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"key": "1"}})
	createObject(t, secrets, &v1.Secret{ObjectMeta: meta})
	var err error
	// A read waits at most one second for the first response.
	read := func() bool { return err == nil || !strings.Contains(err.Error(), "no response") }
	eventually(t, "there is a response about the config map", func() bool {
		_, err = r.ConfigMap(t.Context(), "default", name)
		return read()
	})
	require.ErrorContains(t, err, "forbidden", "no pod references the config map yet")
	require.False(t, volumeobjects.IsNotFound(err))

	pod := n.pod(name)
	pod.Spec.Volumes = []v1.Volume{
		{Name: "map", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}},
		{Name: "secret", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: name + "-none"}}},
	}
	n.create(t, pod)
	shows := func(value string) func() bool {
		return func() bool {
			m, err := r.ConfigMap(t.Context(), "default", name)
			return err == nil && m.Data["key"] == value
		}
	}
	eventually(t, "the config map is readable", shows("1"))
	patch(t, maps, name, map[string]any{"data": map[string]string{"key": "2"}, "immutable": true})
	eventually(t, "the change is visible", shows("2"))
	eventually(t, "there is a response about the missing secret", func() bool {
		_, err = r.Secret(t.Context(), "default", name+"-none")
		return read()
	})
	require.True(t, volumeobjects.IsNotFound(err), "%v", err)
	eventually(t, "there is a response about the secret", func() bool {
		_, err = r.Secret(t.Context(), "default", name)
		return read()
	})
	require.ErrorContains(t, err, "forbidden")
}

// A node gets tokens of its pods' accounts, for the audiences that they request.
func TestTokens(t *testing.T) {
	n := newPlane(t).node(t)
	r := n.reader(t)
	pod := n.pod(n.name)
	seconds := int64(700)
	pod.Spec.Volumes = []v1.Volume{{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Audience: "vault", ExpirationSeconds: &seconds, Path: "token"}},
	}}}}}
	pod = n.create(t, pod)
	request := volumeobjects.TokenRequest{
		Namespace: "default", ServiceAccount: "default", Audiences: []string{"vault"}, ExpirationSeconds: seconds, PodName: pod.Name, PodUID: pod.UID,
	}
	var token volumeobjects.Token
	eventually(t, "a token is issued", func() (ok bool) {
		var err error
		token, err = r.Token(t.Context(), request)
		return err == nil
	})
	require.NotEmpty(t, token.Value)
	require.InDelta(t, 700, token.Expires.Sub(token.Issued).Seconds(), 30)
	request.Audiences = []string{"other-audience"}
	_, err := r.Token(t.Context(), request)
	require.ErrorContains(t, err, "other-audience")
	account, err := r.Accounts().ServiceAccount(t.Context(), "default", "default")
	require.NoError(t, err)
	require.NotEmpty(t, account.UID)
}

// A node may read objects of the cluster and objects of claims.
func TestClusterObjects(t *testing.T) {
	n := newPlane(t).node(t)
	r := n.reader(t)
	ctx, name := t.Context(), n.name
	meta := metav1.ObjectMeta{Name: name}

	var services []*v1.Service
	eventually(t, "the services are readable", func() (ok bool) {
		var err error
		services, err = r.Services(ctx, "default")
		return err == nil && len(services) > 0
	})
	require.Len(t, services, 1)
	require.Equal(t, "kubernetes", services[0].Name)
	require.NotEmpty(t, services[0].Spec.Ports)

	createObject(t, n.admin.RuntimeClasses(), &nodev1.RuntimeClass{ObjectMeta: meta, Handler: "runsc"})
	eventually(t, "the runtime class is readable", func() bool {
		handler, err := r.RuntimeHandler(ctx, &v1.Pod{Spec: v1.PodSpec{RuntimeClassName: &name}})
		return err == nil && handler == "runsc"
	})
	createObject(t, n.admin.CSIDrivers(), &storagev1.CSIDriver{ObjectMeta: meta})
	eventually(t, "the CSI driver is readable", func() bool {
		driver, err := r.CSIDriver(name)
		return err == nil && driver != nil
	})
	createObject(t, n.admin.TrustBundlesV1beta1(), &certv1beta1.ClusterTrustBundle{
		ObjectMeta: meta, Spec: certv1beta1.ClusterTrustBundleSpec{TrustBundle: string(apitest.NewAuthority(t).PEM)},
	})
	eventually(t, "the trust bundle is readable", func() bool {
		text, err := r.TrustBundle(ctx, name)
		return err == nil && text != ""
	})
	n.claim(t, r)
}

func (n *node) claim(t testing.TB, r *objects.Objects) {
	ctx, name := t.Context(), n.name
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	none := ""
	pv := createObject(t, n.admin.PersistentVolumes(), &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
		Capacity: size, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		ClaimRef:               &v1.ObjectReference{Namespace: "default", Name: name},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: name, VolumeHandle: "h"}},
	}})
	claims := n.admin.PersistentVolumeClaims("default")
	createObject(t, claims, &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.PersistentVolumeClaimSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, Resources: v1.VolumeResourceRequirements{Requests: size},
		VolumeName: pv.Name, StorageClassName: &none,
	}})
	pod := n.pod(name)
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
	n.create(t, pod)
	eventually(t, "the claim is bound", func() bool {
		claim, err := r.PersistentVolumeClaim(ctx, "default", name)
		return err == nil && claim.Status.Phase == v1.ClaimBound
	})
	eventually(t, "the volume is bound to the claim", func() bool {
		volume, err := r.PersistentVolume(ctx, name)
		return err == nil && volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.UID != ""
	})
	// The attacher of the controller manager creates one for the pod, too.
	attachments := n.admin.VolumeAttachments()
	createObject(t, attachments, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: name, NodeName: n.name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name},
	}})
	// The authorizer of nodes learns of the attachment from its own watch.
	eventually(t, "the attachment is readable and not attached", func() bool {
		_, err := r.PublishContext(ctx, name)
		return err != nil && strings.Contains(err.Error(), "not attached yet")
	})
	attachment, err := attachments.Get(ctx, name, metav1.GetOptions{})
	require.NoError(t, err)
	attachment.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"device": "sdx"}}
	_, err = attachments.Update(ctx, attachment, metav1.UpdateOptions{}, "status")
	require.NoError(t, err)
	device, err := r.PublishContext(ctx, name)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"device": "sdx"}, device)
}

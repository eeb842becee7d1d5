package claims_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/claims"
	"github.com/podwright/podwright/volume/manager"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ manager.Claims = (*claims.Resolver)(nil)

var errBoom = errors.New("boom")

type objects struct {
	claim *v1.PersistentVolumeClaim
	pv    *v1.PersistentVolume
	err   error
}

func (o *objects) PersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	if o.err != nil || o.claim.Namespace == namespace && o.claim.Name == name {
		return o.claim, o.err
	}
	return nil, nil
}

func (o *objects) PersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	if o.pv == nil || o.pv.Name == name {
		return o.pv, nil
	}
	return nil, volume.ErrNotFound
}

func pod() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u1"}}
}

func bound() *objects {
	controller := true
	return &objects{
		claim: &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "web-disk", UID: "c1",
				OwnerReferences: []metav1.OwnerReference{{UID: "u1", Controller: &controller}},
			},
			Spec:   v1.PersistentVolumeClaimSpec{VolumeName: "pv"},
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
		},
		pv: &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec:       v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{UID: "c1"}},
		},
	}
}

func claimed() v1.Volume {
	return v1.Volume{Name: "disk", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "web-disk", ReadOnly: true},
	}}
}

func ephemeral() v1.Volume {
	return v1.Volume{Name: "disk", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}
}

func resolve(t *testing.T, o *objects, v v1.Volume) (*volume.Spec, error) {
	r, err := claims.New(claims.Config{Objects: o})
	require.NoError(t, err)
	return r.Resolve(t.Context(), pod(), v)
}

func TestResolve(t *testing.T) {
	o := bound()
	spec, err := resolve(t, o, claimed())
	require.NoError(t, err)
	require.Equal(t, &volume.Spec{Name: "pv", Persistent: o.pv, ReadOnly: true}, spec)
	spec, err = resolve(t, o, ephemeral())
	require.NoError(t, err)
	require.Equal(t, &volume.Spec{Name: "pv", Persistent: o.pv}, spec)
	writable := claimed()
	writable.PersistentVolumeClaim.ReadOnly = false
	spec, err = resolve(t, o, writable)
	require.NoError(t, err)
	require.False(t, spec.ReadOnly)
	protected := bound()
	protected.claim.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	protected.claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	_, err = resolve(t, protected, claimed())
	require.NoError(t, err, "a protected claim in deletion stays usable")
}

// TestResolveFails covers each check alone. V31: a claim of another owner is refused.
func TestResolveFails(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*objects)
		volume  v1.Volume
		want    error
		message string
	}{
		{"cannot be read", func(o *objects) { o.err = errBoom }, claimed(), errBoom, "claim ns/web-disk: boom"},
		{"missing", func(o *objects) { o.claim.Name = "x" }, claimed(), volume.ErrNotFound, "claim ns/web-disk: not found"},
		{"of another namespace", func(o *objects) { o.claim.Namespace = "x" }, claimed(), volume.ErrNotFound, "ns/web-disk"},
		{"V31: of another pod", func(o *objects) { o.claim.OwnerReferences[0].UID = "u2" }, ephemeral(), claims.ErrNotOwned, "ns/web (u1)"},
		{"V31: without an owner", func(o *objects) { o.claim.OwnerReferences = nil }, ephemeral(), claims.ErrNotOwned, "not owned"},
		{"being deleted", func(o *objects) { o.claim.DeletionTimestamp = &metav1.Time{} }, claimed(), claims.ErrDeleted, "being deleted"},
		{"pending", func(o *objects) { o.claim.Status.Phase = v1.ClaimPending }, claimed(), claims.ErrNotBound, `"Pending"`},
		{"without a volume", func(o *objects) { o.claim.Spec.VolumeName = "" }, claimed(), claims.ErrNotBound, "spec.volumeName"},
		{"volume missing", func(o *objects) { o.pv.Name = "x" }, claimed(), volume.ErrNotFound, "volume pv: not found"},
		{"no volume and no error", func(o *objects) { o.pv = nil }, claimed(), volume.ErrNotFound, "volume pv: not found"},
		{"volume without a claim", func(o *objects) { o.pv.Spec.ClaimRef = nil }, claimed(), claims.ErrNotBound, "spec.claimRef"},
		{"volume of another claim", func(o *objects) { o.pv.Spec.ClaimRef.UID = "c0" }, claimed(), claims.ErrOtherClaim, "c0"},
		{"no claim", func(*objects) {}, v1.Volume{Name: "x"}, nil, "names no claim"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := bound()
			test.change(o)
			spec, err := resolve(t, o, test.volume)
			require.Nil(t, spec)
			require.ErrorContains(t, err, test.message)
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
			}
		})
	}
}

func TestTranslate(t *testing.T) {
	o := bound()
	r, err := claims.New(claims.Config{Objects: o, Translate: func(pv *v1.PersistentVolume) (*v1.PersistentVolume, error) {
		pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: "d"}
		return pv, nil
	}})
	require.NoError(t, err)
	spec, err := r.Resolve(t.Context(), pod(), claimed())
	require.NoError(t, err)
	require.Equal(t, "d", spec.Persistent.Spec.CSI.Driver)
	require.Nil(t, o.pv.Spec.CSI, "Translate receives a copy")
	_, err = claims.New(claims.Config{})
	require.EqualError(t, err, "claims: Config.Objects is required")
}

// A volume that belongs to other nodes is refused.
func TestNodeAffinity(t *testing.T) {
	o := bound()
	o.pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}},
	}}}}
	var node *v1.Node
	r, err := claims.New(claims.Config{Objects: o, Node: func() *v1.Node { return node }})
	require.NoError(t, err)
	_, err = r.Resolve(t.Context(), pod(), claimed())
	require.EqualError(t, err, "claim ns/web-disk: volume pv: spec.nodeAffinity: the labels of this node are not available yet")
	node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "b"}}}
	_, err = r.Resolve(t.Context(), pod(), claimed())
	require.ErrorIs(t, err, claims.ErrOtherNode)
	require.EqualError(t, err, "claim ns/web-disk: volume pv: its node affinity excludes this node, n1")
	node.Labels["zone"] = "a"
	_, err = r.Resolve(t.Context(), pod(), claimed())
	require.NoError(t, err)
	o.pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Operator = "Near"
	_, err = r.Resolve(t.Context(), pod(), claimed())
	require.ErrorContains(t, err, "spec.nodeAffinity.required")
	_, err = resolve(t, o, claimed())
	require.NoError(t, err, "without a node the affinity is ignored")
	node = nil
	for _, everywhere := range []*v1.VolumeNodeAffinity{{}, nil} {
		o.pv.Spec.NodeAffinity = everywhere
		_, err = r.Resolve(t.Context(), pod(), claimed())
		require.NoError(t, err, "a volume of all nodes needs no labels")
	}
}

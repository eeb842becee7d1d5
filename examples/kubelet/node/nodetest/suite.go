package nodetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/node"
)

// Clients are the clients under test.
type Clients struct {
	Nodes  node.NodeClient
	Leases node.LeaseClient
	// Name is a missing node that the clients may create, with its Lease.
	Name string
	// Delete deletes the node as an administrator.
	Delete func(t *testing.T, name string)
}

// TestClients tests implementations of NodeClient and LeaseClient for the behaviour that package
// node needs.
func TestClients(t *testing.T, c Clients) {
	ctx := t.Context()
	_, err := c.Nodes.GetNode(ctx, c.Name)
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	_, err = c.Nodes.PatchNodeStatus(ctx, c.Name, []byte(`{"metadata":{"uid":"x"}}`))
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	fresh := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.Name, Labels: map[string]string{v1.LabelHostname: c.Name}}}
	fresh.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionFalse, Reason: "New"}}
	made, err := c.Nodes.CreateNode(ctx, fresh)
	require.NoError(t, err)
	require.NotEmpty(t, made.UID)
	require.Equal(t, fresh.Status.Conditions, made.Status.Conditions, "a node is made with its status")
	_, err = c.Nodes.CreateNode(ctx, fresh)
	require.True(t, apierrors.IsAlreadyExists(err), "%v", err)

	testPatches(t, c, made)
	testLeases(t, c, made)

	c.Delete(t, c.Name)
	_, err = c.Nodes.GetNode(ctx, c.Name)
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

func testPatches(t *testing.T, c Clients, made *v1.Node) {
	ctx := t.Context()
	first := made.DeepCopy()
	first.Labels["node.kubernetes.io/of"] = "the-suite"
	first.Annotations = map[string]string{"example.com/a": "b"}
	first.Status.Addresses = []v1.NodeAddress{
		{Type: v1.NodeInternalIP, Address: "192.0.2.1"}, {Type: v1.NodeInternalIP, Address: "2001:db8::1"}, {Type: v1.NodeHostName, Address: c.Name},
	}
	first.Status.Conditions = append(first.Status.Conditions, v1.NodeCondition{Type: "example.com/Other", Status: v1.ConditionTrue})
	first.Status.Images = []v1.ContainerImage{{Names: []string{"a"}, SizeBytes: 1}, {Names: []string{"b"}, SizeBytes: 1}}
	got := apply(t, c, made, first)

	second := got.DeepCopy()
	delete(second.Annotations, "example.com/a")
	second.Status.Addresses = second.Status.Addresses[1:2]
	second.Status.Conditions[0].Status, second.Status.Conditions[0].Reason = v1.ConditionTrue, ""
	second.Status.Images = second.Status.Images[1:]
	apply(t, c, got, second)

	other := second.DeepCopy()
	other.UID = "another"
	late := other.DeepCopy()
	late.Labels["node.kubernetes.io/of"] = "nobody"
	patch, err := node.StatusPatch(other, late)
	require.NoError(t, err)
	_, err = c.Nodes.PatchNodeStatus(ctx, c.Name, patch)
	require.Error(t, err, "another node of that name")
	now, err := c.Nodes.GetNode(ctx, c.Name)
	require.NoError(t, err)
	require.Equal(t, "the-suite", now.Labels["node.kubernetes.io/of"])
}

func apply(t *testing.T, c Clients, old, wanted *v1.Node) *v1.Node {
	patch, err := node.StatusPatch(old, wanted)
	require.NoError(t, err)
	got, err := c.Nodes.PatchNodeStatus(t.Context(), c.Name, patch)
	require.NoError(t, err)
	read, err := c.Nodes.GetNode(t.Context(), c.Name)
	require.NoError(t, err)
	for _, node := range []*v1.Node{got, read} {
		require.Equal(t, wanted.Status.Addresses, node.Status.Addresses)
		require.Equal(t, wanted.Status.Images, node.Status.Images)
		// Controllers may have added their own.
		require.Subset(t, node.Status.Conditions, wanted.Status.Conditions)
		require.Subset(t, node.Labels, wanted.Labels)
		require.Subset(t, node.Annotations, wanted.Annotations)
		for key := range old.Annotations {
			_, kept := wanted.Annotations[key]
			_, there := node.Annotations[key]
			require.Equal(t, kept, there, key)
		}
	}
	return got
}

func testLeases(t *testing.T, c Clients, owner *v1.Node) {
	ctx := t.Context()
	_, err := c.Leases.GetLease(ctx, c.Name)
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: c.Name, Namespace: node.LeaseNamespace,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: c.Name, UID: owner.UID}},
	}}
	made, err := c.Leases.CreateLease(ctx, lease)
	require.NoError(t, err)
	_, err = c.Leases.CreateLease(ctx, lease)
	require.True(t, apierrors.IsAlreadyExists(err), "%v", err)

	renewed, seconds := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond)), int32(40)
	next := made.DeepCopy()
	next.Spec.RenewTime, next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds = &renewed, &c.Name, &seconds
	updated, err := c.Leases.UpdateLease(ctx, next)
	require.NoError(t, err)
	require.NotEqual(t, made.ResourceVersion, updated.ResourceVersion)
	_, err = c.Leases.UpdateLease(ctx, next)
	require.True(t, apierrors.IsConflict(err), "of an old version: %v", err)
	read, err := c.Leases.GetLease(ctx, c.Name)
	require.NoError(t, err)
	require.True(t, read.Spec.RenewTime.Time.Equal(renewed.Time), "microseconds are kept: %v", read.Spec.RenewTime)
}

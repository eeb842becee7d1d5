package objects_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/claims"
	"github.com/podwright/podwright/volume/csi"
)

const pending, inProgress = v1.PersistentVolumeClaimNodeResizePending, v1.PersistentVolumeClaimNodeResizeInProgress

func sized(size string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

// growing creates a claim whose volume has 8 bytes, and returns the volume.
func growing(r *rig, has string, at v1.ClaimResourceStatus, change func(*v1.PersistentVolumeClaim)) *volume.Spec {
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
		Spec:       v1.PersistentVolumeClaimSpec{AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}},
		Status: v1.PersistentVolumeClaimStatus{
			Phase: v1.ClaimBound, Capacity: sized(has), AllocatedResources: sized("8"),
			Conditions: []v1.PersistentVolumeClaimCondition{{Type: "Ours", Status: "True"}, {Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: "True"}},
		},
	}
	if at != "" {
		claim.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: at}
	}
	if change != nil {
		change(claim)
	}
	put := r.server.Put(claim)
	return &volume.Spec{Name: "pv", Persistent: &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec:       v1.PersistentVolumeSpec{Capacity: sized("8"), ClaimRef: &v1.ObjectReference{Namespace: "ns", Name: "c", UID: put.GetUID()}},
	}}
}

func conditionsText(t *testing.T, r *rig) string {
	claim, ok := apitest.Find(r.server, &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}})
	require.True(t, ok)
	var conditions []string
	for _, c := range claim.Status.Conditions {
		conditions = append(conditions, string(c.Type))
	}
	slices.Sort(conditions)
	return fmt.Sprint(claim.Status.Capacity.Storage(), " ", claim.Status.AllocatedResourceStatuses[v1.ResourceStorage], " ", conditions)
}

// BeginResize starts an expansion only if the claim waits for the node.
func TestBeginResize(t *testing.T) {
	annotated := func(c *v1.PersistentVolumeClaim) {
		c.Spec.AccessModes[0] = v1.ReadWriteMany
		c.Annotations = map[string]string{"volume.kubernetes.io/node-expansion-not-required": "true"}
	}
	for name, c := range map[string]struct {
		has    string
		at     v1.ClaimResourceStatus
		change func(*v1.PersistentVolumeClaim)
		expand bool
		after  v1.ClaimResourceStatus
	}{
		"it is large enough":             {has: "8"},
		"on this node, too":              {has: "8", change: func(c *v1.PersistentVolumeClaim) { c.Spec.AccessModes[0] = v1.ReadWriteMany }, expand: true},
		"on all nodes already":           {has: "8", change: annotated},
		"the controller begins":          {has: "4"},
		"the controller is expanding it": {has: "4", at: v1.PersistentVolumeClaimControllerResizeInProgress, after: v1.PersistentVolumeClaimControllerResizeInProgress},
		"it is the node's turn":          {has: "4", at: pending, expand: true, after: inProgress},
		"it has begun":                   {has: "4", at: inProgress, expand: true, after: inProgress},
		"it is infeasible":               {has: "4", at: v1.PersistentVolumeClaimNodeResizeInfeasible, after: v1.PersistentVolumeClaimNodeResizeInfeasible},
		"the controller is an old":       {has: "4", change: func(c *v1.PersistentVolumeClaim) { c.Status.AllocatedResources = nil }, expand: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				spec := growing(r, c.has, c.at, c.change)
				size, expand, err := r.BeginResize(t.Context(), spec)
				require.NoError(t, err)
				require.Equal(t, c.expand, expand)
				require.Equal(t, c.has, fmt.Sprint(size))
				require.Equal(t, c.has+" "+string(c.after)+" [FileSystemResizePending Ours]", conditionsText(t, r))
				spec.ReadOnly = true
				size, expand, err = r.BeginResize(t.Context(), spec)
				require.NoError(t, err)
				require.False(t, expand, "it is read-only")
				require.Equal(t, int64(8), size)
			})
		})
	}
}

// EndResize writes the result of an expansion to the claim.
func TestEndResize(t *testing.T) {
	for name, c := range map[string]struct {
		has   string
		at    v1.ClaimResourceStatus
		err   error
		after string
	}{
		"done":                   {"4", inProgress, nil, "8  [Ours]"},
		"done by another":        {"8", "", nil, "8  [FileSystemResizePending Ours]"},
		"maybe yet":              {"4", inProgress, status.Error(codes.Unavailable, "x"), "4 NodeResizeInProgress [FileSystemResizePending Ours]"},
		"failed":                 {"4", inProgress, csi.Final(status.Error(codes.Internal, "x")), "4 NodeResizeInProgress [FileSystemResizePending NodeResizeError Ours]"},
		"impossible":             {"4", inProgress, csi.Final(status.Error(codes.OutOfRange, "x")), "4 NodeResizeInfeasible [FileSystemResizePending NodeResizeError Ours]"},
		"impossible, no records": {"4", "", csi.Final(status.Error(codes.NotFound, "x")), "4 NodeResizeInfeasible [FileSystemResizePending NodeResizeError Ours]"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				spec := growing(r, c.has, c.at, nil)
				for range 2 {
					require.NoError(t, r.EndResize(t.Context(), spec, c.err))
					require.Equal(t, c.after, conditionsText(t, r))
				}
			})
		})
	}
}

// EndResize does not change another claim of the same name, or one that cannot be read.
func TestResizeOfAnotherClaim(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		spec := growing(r, "4", pending, nil)
		spec.Persistent.Spec.ClaimRef.UID = "other"
		_, expand, err := r.BeginResize(t.Context(), spec)
		require.ErrorIs(t, err, claims.ErrOtherClaim)
		require.False(t, expand)
		require.ErrorIs(t, r.EndResize(t.Context(), spec, nil), claims.ErrOtherClaim)
		require.Equal(t, "4 NodeResizePending [FileSystemResizePending Ours]", conditionsText(t, r))
		spec.Persistent.Spec.ClaimRef.Name = "none"
		_, _, err = r.BeginResize(t.Context(), spec)
		require.ErrorIs(t, err, volume.ErrNotFound)
		spec.Persistent.Spec.ClaimRef = nil
		_, _, err = r.BeginResize(t.Context(), spec)
		require.ErrorIs(t, err, claims.ErrNotBound)
		require.Zero(t, r.server.CountCalls("patch", "persistentvolumeclaims"))
	})
}

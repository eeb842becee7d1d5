package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/claims"
	"github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/manager"
)

var _ manager.Resizes = (*Objects)(nil)

// expandedElsewhere is the annotation of claims whose controller expands them on all nodes.
const expandedElsewhere = "volume.kubernetes.io/node-expansion-not-required"

// BeginResize implements manager.Resizes. It reports that the node must expand the volume if the
// claim is waiting for the node, and first marks the claim as in progress (KEP-1790). A volume with
// access from several nodes is expanded on each of them. A volume that is read-only for the pod is
// not expanded.
func (o *Objects) BeginResize(ctx context.Context, spec *volume.Spec) (size int64, expand bool, err error) {
	wanted := spec.Persistent.Spec.Capacity.Storage()
	if spec.ReadOnly {
		return wanted.Value(), false, nil
	}
	claim, err := o.resizedClaim(ctx, spec)
	if err != nil {
		return 0, false, err
	}
	has, at := claim.Status.Capacity.Storage(), claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]
	size = has.Value()
	switch {
	case at == "" && has.Cmp(*wanted) >= 0:
		_, elsewhere := claim.Annotations[expandedElsewhere]
		return size, slices.Contains(claim.Spec.AccessModes, v1.ReadWriteMany) && !elsewhere, nil
	case at == "" && claim.Status.AllocatedResources == nil:
		return size, true, nil // its controller predates allocatedResources
	case at == v1.PersistentVolumeClaimNodeResizePending, at == v1.PersistentVolumeClaimNodeResizeInProgress:
		begun := claim.DeepCopy()
		begun.Status.AllocatedResourceStatuses[v1.ResourceStorage] = v1.PersistentVolumeClaimNodeResizeInProgress
		err := o.patchClaim(ctx, claim, begun)
		return size, err == nil, err
	}
	return size, false, nil
}

// EndResize implements manager.Resizes. It writes the new capacity or the failure to the claim. An
// expansion with an uncertain result stays in progress.
func (o *Objects) EndResize(ctx context.Context, spec *volume.Spec, failure error) error {
	if failure != nil && !errors.Is(failure, csi.ErrFinal) {
		return nil
	}
	claim, err := o.resizedClaim(ctx, spec)
	if err != nil {
		return err
	}
	ended := claim.DeepCopy()
	if failure != nil {
		resizeFailed(&ended.Status, failure)
	} else {
		resized(&ended.Status, spec.Persistent.Spec.Capacity)
	}
	return o.patchClaim(ctx, claim, ended)
}

// resized records an expansion. A claim that already has the size is not changed: another node was
// first.
func resized(s *v1.PersistentVolumeClaimStatus, capacity v1.ResourceList) {
	if s.AllocatedResourceStatuses[v1.ResourceStorage] == "" && s.Capacity.Storage().Cmp(*capacity.Storage()) >= 0 {
		return
	}
	if s.Capacity == nil {
		s.Capacity = v1.ResourceList{}
	}
	s.Capacity[v1.ResourceStorage] = *capacity.Storage()
	delete(s.AllocatedResourceStatuses, v1.ResourceStorage)
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c v1.PersistentVolumeClaimCondition) bool {
		return slices.Contains([]v1.PersistentVolumeClaimConditionType{
			v1.PersistentVolumeClaimResizing, v1.PersistentVolumeClaimFileSystemResizePending,
			v1.PersistentVolumeClaimControllerResizeError, v1.PersistentVolumeClaimNodeResizeError,
		}, c.Type)
	})
}

// resizeFailed records a failure. A failure that a retry cannot fix ends the expansion.
func resizeFailed(s *v1.PersistentVolumeClaimStatus, err error) {
	if infeasible(err) {
		if s.AllocatedResourceStatuses == nil {
			s.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{}
		}
		s.AllocatedResourceStatuses[v1.ResourceStorage] = v1.PersistentVolumeClaimNodeResizeInfeasible
	}
	if slices.ContainsFunc(s.Conditions, func(c v1.PersistentVolumeClaimCondition) bool {
		return c.Type == v1.PersistentVolumeClaimNodeResizeError && c.Status == v1.ConditionTrue
	}) {
		return
	}
	s.Conditions = append(s.Conditions, v1.PersistentVolumeClaimCondition{
		Type: v1.PersistentVolumeClaimNodeResizeError, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now()),
		Message: fmt.Sprintf("failed to expand pvc with %v", err),
	})
}

// infeasible reports whether a driver's error means that the size itself is invalid.
func infeasible(err error) bool {
	var answer interface{ GRPCStatus() *status.Status }
	return errors.As(err, &answer) && slices.Contains([]codes.Code{codes.InvalidArgument, codes.OutOfRange, codes.NotFound}, answer.GRPCStatus().Code())
}

func (o *Objects) resizedClaim(ctx context.Context, spec *volume.Spec) (*v1.PersistentVolumeClaim, error) {
	ref := spec.Persistent.Spec.ClaimRef
	if ref == nil {
		return nil, fmt.Errorf("volume %s: %w: spec.claimRef is empty", spec.Name, claims.ErrNotBound)
	}
	claim, err := o.PersistentVolumeClaim(ctx, ref.Namespace, ref.Name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("claim %s/%s: %w", ref.Namespace, ref.Name, err)
	case claim.UID != ref.UID:
		return nil, fmt.Errorf("volume %s: %w: the volume is bound to UID %s", spec.Name, claims.ErrOtherClaim, ref.UID)
	}
	return claim, nil
}

// patchClaim changes the status of a claim, unless the claim has changed since it was read.
func (o *Objects) patchClaim(ctx context.Context, from, to *v1.PersistentVolumeClaim) error {
	patch, err := claimPatch(from, to)
	if err != nil || patch == nil {
		return err
	}
	_, err = o.cfg.Client.PersistentVolumeClaims(from.Namespace).Patch(ctx, from.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("status of claim %s/%s: %w", from.Namespace, from.Name, err)
	}
	return nil
}

// claimPatch returns the patch from one version of a claim to another, or nil if they are equal. It
// applies only to the version of from.
func claimPatch(from, to *v1.PersistentVolumeClaim) ([]byte, error) {
	before, err := json.Marshal(v1.PersistentVolumeClaim{Status: from.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(v1.PersistentVolumeClaim{Status: to.Status})
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.PersistentVolumeClaim{})
	if err != nil || string(patch) == "{}" {
		return nil, err
	}
	return strategicpatch.StrategicMergePatch(patch, fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q}}`, from.UID, from.ResourceVersion), v1.PersistentVolumeClaim{})
}

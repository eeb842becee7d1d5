package agent

import (
	"context"

	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/volume"
	volumecsi "github.com/podwright/podwright/volume/csi"
)

// reasonAttachLimit rejects a pod with a volume beyond the driver's limit of attached volumes.
const reasonAttachLimit = "VolumeAttachmentLimitExceeded"

// notAttached returns the reason why a volume is not attached to a node. It rejects the pod if the
// attachment failed for lack of capacity and the driver updates its limit periodically
// (nodeAllocatableUpdatePeriodSeconds): the scheduler then sees the new limit and chooses another
// node (KEP-4876).
func (c *cluster) notAttached(ctx context.Context, spec *volume.Spec, node string) error {
	if spec == nil || spec.Persistent == nil || spec.Persistent.Spec.CSI == nil {
		return errNotAttached
	}
	source := spec.Persistent.Spec.CSI
	driver, err := c.objects.CSIDriver(source.Driver)
	if err != nil || driver.Spec.NodeAllocatableUpdatePeriodSeconds == nil {
		return errNotAttached
	}
	a, err := c.client.VolumeAttachments().Get(ctx, volumecsi.AttachmentName(source.Driver, source.VolumeHandle, node), metav1.GetOptions{})
	if err != nil || a.Status.AttachError == nil {
		return errNotAttached
	}
	failed := a.Status.AttachError
	if failed.ErrorCode == nil || codes.Code(*failed.ErrorCode) != codes.ResourceExhausted {
		return errNotAttached
	}
	return syncloop.Reject(reasonAttachLimit, "volume %s cannot be attached: %s", spec.Name, failed.Message)
}

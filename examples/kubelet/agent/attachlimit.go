package agent

import (
	"context"

	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/volume"
	volumecsi "github.com/podwright/podwright/volume/csi"
)

// reasonAttachLimit is that of a pod of which a volume cannot be attached, since as many are
// as the node can have.
const reasonAttachLimit = "VolumeAttachmentLimitExceeded"

// notAttached says why a volume is not attached to a node. Where the driver says anew now
// and then how many the node can have (nodeAllocatableUpdatePeriodSeconds), and has no room
// for this one, the pod is rejected: a scheduler that knows that number finds it another
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

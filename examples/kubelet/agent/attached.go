package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/claims"
	"github.com/podwright/podwright/volume/manager"
)

// The reasons why a volume cannot be used yet. The volume is retried when the Node changes.
var (
	errNotAttached = errors.New("not attached to this node yet (status.volumesAttached of the Node)")
	// A controller may detach volumes that the Node does not report as in use.
	errNotReported = errors.New("not reported as in use by this node yet (status.volumesInUse of the Node)")
)

// attachments reports the volumes that a controller has attached to this node.
type attachments struct{ *cluster }

// Attached implements manager.Attachments. It reads the Node from the server, because the watched
// copy may miss a recent detachment.
func (a attachments) Attached(ctx context.Context, id volume.ID, spec *volume.Spec) (devicePath string, err error) {
	seen := a.thisNode()
	if seen == nil {
		return "", errors.New("the Node has not been read yet")
	}
	if !slices.Contains(seen.Status.VolumesInUse, v1.UniqueVolumeName(id.String())) {
		a.node.Wake()
		return "", errNotReported
	}
	if _, ok := attachedTo(seen, id); !ok {
		return "", a.notAttached(ctx, spec, seen.Name)
	}
	now, err := a.client.Nodes().Get(ctx, seen.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading status.volumesAttached of the Node: %w", err)
	}
	path, ok := attachedTo(now, id)
	if !ok {
		return "", errNotAttached
	}
	return path, nil
}

func attachedTo(n *v1.Node, id volume.ID) (devicePath string, ok bool) {
	for _, v := range n.Status.VolumesAttached {
		if string(v.Name) == id.String() {
			return v.DevicePath, true
		}
	}
	return "", false
}

// claimed adds claims, volume expansion and attachments to the configuration of the volume manager.
func (c *cluster) claimed(cfg manager.Config) (manager.Config, error) {
	if c == nil {
		return cfg, nil
	}
	resolver, err := claims.New(claims.Config{Objects: c.objects, Node: c.thisNode})
	cfg.Claims, cfg.Attachments, cfg.Resizes = resolver, attachments{c}, c.objects
	// A controller detaches a volume once the Node no longer reports it as in use.
	cfg.Metrics.OnOperation = func(op manager.Operation) {
		if op.Err == nil && (op.Name == "unmount_device" || op.Name == "unmap_device") {
			c.node.Wake()
		}
	}
	return cfg, err
}

package node

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
)

// NodeClient contains an agent's calls about its node. Errors are the API's, which package
// k8s.io/apimachinery/pkg/api/errors distinguishes: not found, already exists, forbidden, conflict.
// Calls end with their context. The caller owns the results.
type NodeClient interface {
	GetNode(ctx context.Context, name string) (*v1.Node, error)
	CreateNode(ctx context.Context, node *v1.Node) (*v1.Node, error)
	// PatchNodeStatus applies a strategic merge patch to the subresource status, which also accepts
	// labels and annotations. The patch contains a UID: if the node has another UID, the call must
	// fail without changes.
	PatchNodeStatus(ctx context.Context, name string, patch []byte) (*v1.Node, error)
}

// LeaseClient contains an agent's calls about its Lease in LeaseNamespace. UpdateLease fails with a
// conflict unless the resource version is the newest. Otherwise it is like NodeClient.
type LeaseClient interface {
	GetLease(ctx context.Context, name string) (*coordinationv1.Lease, error)
	CreateLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
	UpdateLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
}

// LeaseNamespace is the namespace of the Leases of nodes.
const LeaseNamespace = v1.NamespaceNodeLease

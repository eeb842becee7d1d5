package node

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
)

// NodeClient is what the agent asks an API server about its node. Errors are the API's, as
// package k8s.io/apimachinery/pkg/api/errors tells them apart: not found, already exists,
// forbidden, conflict. Calls end with their context. What is returned is the caller's.
type NodeClient interface {
	GetNode(ctx context.Context, name string) (*v1.Node, error)
	CreateNode(ctx context.Context, node *v1.Node) (*v1.Node, error)
	// PatchNodeStatus applies a strategic merge patch to the subresource status, which
	// takes labels and annotations too. The patch names a UID: if the node has another
	// one, nothing may be changed.
	PatchNodeStatus(ctx context.Context, name string, patch []byte) (*v1.Node, error)
}

// LeaseClient is what the agent asks about its Lease. Leases are those of LeaseNamespace.
// UpdateLease is a conflict unless the resource version is the newest. Otherwise as
// NodeClient.
type LeaseClient interface {
	GetLease(ctx context.Context, name string) (*coordinationv1.Lease, error)
	CreateLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
	UpdateLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
}

// LeaseNamespace is where the Leases of nodes are.
const LeaseNamespace = v1.NamespaceNodeLease

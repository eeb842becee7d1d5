package apiserver

import (
	"context"

	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OwnNode are the calls of an agent about its own Node and Lease. What waits for nobody
// and soon gives up, as heartbeats should, is one of a Client with such limits.
type OwnNode struct{ client *Client }

// OwnNode returns the calls of this client.
func (c *Client) OwnNode() OwnNode { return OwnNode{c} }

// GetNode returns a Node as it is at the server.
func (n OwnNode) GetNode(ctx context.Context, name string) (*v1.Node, error) {
	return n.client.Nodes().Get(ctx, name, metav1.GetOptions{})
}

// CreateNode registers a Node.
func (n OwnNode) CreateNode(ctx context.Context, node *v1.Node) (*v1.Node, error) {
	return n.client.Nodes().Create(ctx, node, metav1.CreateOptions{})
}

// PatchNodeStatus applies a strategic merge patch to the status of a Node, to its labels
// and to its annotations. A patch that names another UID than the Node's is invalid.
func (n OwnNode) PatchNodeStatus(ctx context.Context, name string, patch []byte) (*v1.Node, error) {
	return n.client.Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}

// GetLease returns the Lease of a node as it is at the server.
func (n OwnNode) GetLease(ctx context.Context, name string) (*coordv1.Lease, error) {
	return n.leases().Get(ctx, name, metav1.GetOptions{})
}

// CreateLease makes the Lease of a node.
func (n OwnNode) CreateLease(ctx context.Context, lease *coordv1.Lease) (*coordv1.Lease, error) {
	return n.leases().Create(ctx, lease, metav1.CreateOptions{})
}

// UpdateLease replaces the Lease of a node, if its resource version is the newest.
func (n OwnNode) UpdateLease(ctx context.Context, lease *coordv1.Lease) (*coordv1.Lease, error) {
	return n.leases().Update(ctx, lease, metav1.UpdateOptions{})
}

func (n OwnNode) leases() Resource[*coordv1.Lease, *coordv1.LeaseList] {
	return n.client.Leases(v1.NamespaceNodeLease)
}

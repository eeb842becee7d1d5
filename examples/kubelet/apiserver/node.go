package apiserver

import (
	"context"
	"errors"
	"fmt"

	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OwnNode contains the calls of an agent about its own Node and Lease. For heartbeats, use it on a
// Client without rate limit and with a short timeout (see Client.With).
type OwnNode struct{ client *Client }

func (c *Client) OwnNode() OwnNode { return OwnNode{c} }

// errNoUID is the error of a Node without a UID. It would otherwise be taken for a Node without
// labels, whose pods are rejected.
var errNoUID = errors.New("the response is not a Node: it has no UID")

// CheckNode returns an error for a Node without a UID.
func CheckNode(node *v1.Node) error {
	if node.UID == "" {
		return errNoUID
	}
	return nil
}

func checked(node *v1.Node, err error) (*v1.Node, error) {
	if err != nil {
		return nil, err
	}
	if err := CheckNode(node); err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	return node, nil
}

// GetNode reads a Node from the server. A response without a UID is an error, as in all calls about
// Nodes.
func (n OwnNode) GetNode(ctx context.Context, name string) (*v1.Node, error) {
	return checked(n.client.Nodes().Get(ctx, name, metav1.GetOptions{}))
}

// CreateNode registers a Node.
func (n OwnNode) CreateNode(ctx context.Context, node *v1.Node) (*v1.Node, error) {
	return checked(n.client.Nodes().Create(ctx, node, metav1.CreateOptions{}))
}

// PatchNodeStatus applies a strategic merge patch to the status, the labels and the annotations of
// a Node. A patch with a UID other than the Node's is invalid.
func (n OwnNode) PatchNodeStatus(ctx context.Context, name string, patch []byte) (*v1.Node, error) {
	return checked(n.client.Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"))
}

// GetLease reads the Lease of a node from the server.
func (n OwnNode) GetLease(ctx context.Context, name string) (*coordv1.Lease, error) {
	return n.leases().Get(ctx, name, metav1.GetOptions{})
}

// CreateLease creates the Lease of a node.
func (n OwnNode) CreateLease(ctx context.Context, lease *coordv1.Lease) (*coordv1.Lease, error) {
	return n.leases().Create(ctx, lease, metav1.CreateOptions{})
}

// UpdateLease replaces the Lease of a node. A resource version other than the newest is a conflict.
func (n OwnNode) UpdateLease(ctx context.Context, lease *coordv1.Lease) (*coordv1.Lease, error) {
	return n.leases().Update(ctx, lease, metav1.UpdateOptions{})
}

func (n OwnNode) leases() Resource[*coordv1.Lease, *coordv1.LeaseList] {
	return n.client.Leases(v1.NamespaceNodeLease)
}

// Package nodetest provides an API server's nodes and Leases in memory, with faults set by the
// test, and a test suite for the clients of package node.
package nodetest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/node"
)

// The verbs of a Call.
const (
	GetNode     = "get node"
	CreateNode  = "create node"
	PatchNode   = "patch node"
	GetLease    = "get lease"
	CreateLease = "create lease"
	UpdateLease = "update lease"
)

// Call is a call of an API.
type Call struct {
	Verb string
	At   time.Time
	// Patch is the patch of a PatchNode.
	Patch string
}

// API implements the clients of package node on an apitest.Server. The zero value is ready to use.
// It is safe for concurrent use.
type API struct {
	// Before is called before the effect of a call. It may block, and its error prevents the
	// effect. After is called after the effect, and its error replaces the response. Set both
	// before the first call. Optional.
	Before, After func(ctx context.Context, call Call) error

	once sync.Once
	kept *apitest.Server

	mu    sync.Mutex
	calls []Call
}

func (a *API) server() *apitest.Server {
	a.once.Do(func() { a.kept = apitest.New() })
	return a.kept
}

// Calls returns the calls so far with these verbs, or all calls without verbs.
func (a *API) Calls(verbs ...string) []Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.calls), func(c Call) bool { return len(verbs) > 0 && !slices.Contains(verbs, c.Verb) })
}

// Forget drops the record of calls.
func (a *API) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = nil
}

func nodeNamed(name string) *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func leaseOf(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: node.LeaseNamespace}}
}

// Node returns a node, or nil.
func (a *API) Node(name string) *v1.Node {
	if n, ok := apitest.Find(a.server(), nodeNamed(name)); ok {
		return n
	}
	return nil
}

// Lease returns a Lease, or nil.
func (a *API) Lease(name string) *coordinationv1.Lease {
	if l, ok := apitest.Find(a.server(), leaseOf(name)); ok {
		return l
	}
	return nil
}

// Edit changes a node as another client would. It creates a missing node.
func (a *API) Edit(name string, change func(*v1.Node)) {
	n, _ := apitest.Find(a.server(), nodeNamed(name))
	change(n)
	a.server().Put(n)
}

// EditLease changes a Lease as another client would. It creates a missing Lease.
func (a *API) EditLease(name string, change func(*coordinationv1.Lease)) {
	l, _ := apitest.Find(a.server(), leaseOf(name))
	change(l)
	a.server().Put(l)
}

// Delete removes a node and the Lease that it owns.
func (a *API) Delete(name string) {
	n, l := a.Node(name), a.Lease(name)
	a.server().Remove(nodeNamed(name))
	if n != nil && l != nil && len(l.OwnerReferences) > 0 && l.OwnerReferences[0].UID == n.UID {
		a.server().Remove(l)
	}
}

func do[T apitest.Object](ctx context.Context, a *API, call Call, obj T) (got T, err error) {
	call.At = time.Now()
	a.mu.Lock()
	a.calls = append(a.calls, call)
	a.mu.Unlock()
	if err := fault(ctx, a.Before, call); err != nil {
		return got, err
	}
	verb, _, _ := strings.Cut(call.Verb, " ")
	if got, err = apitest.Do(a.server(), verb, obj, call.Patch); err != nil {
		return got, err
	}
	return got, fault(ctx, a.After, call)
}

func fault(ctx context.Context, f func(context.Context, Call) error, call Call) error {
	if f != nil {
		if err := f(ctx, call); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// GetNode implements node.NodeClient.
func (a *API) GetNode(ctx context.Context, name string) (*v1.Node, error) {
	return do(ctx, a, Call{Verb: GetNode}, nodeNamed(name))
}

// CreateNode implements node.NodeClient.
func (a *API) CreateNode(ctx context.Context, node *v1.Node) (*v1.Node, error) {
	return do(ctx, a, Call{Verb: CreateNode}, node)
}

// PatchNodeStatus implements node.NodeClient.
func (a *API) PatchNodeStatus(ctx context.Context, name string, patch []byte) (*v1.Node, error) {
	return do(ctx, a, Call{Verb: PatchNode, Patch: string(patch)}, nodeNamed(name))
}

// GetLease implements node.LeaseClient.
func (a *API) GetLease(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	return do(ctx, a, Call{Verb: GetLease}, leaseOf(name))
}

// CreateLease implements node.LeaseClient.
func (a *API) CreateLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return do(ctx, a, Call{Verb: CreateLease}, lease)
}

// UpdateLease implements node.LeaseClient.
func (a *API) UpdateLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return do(ctx, a, Call{Verb: UpdateLease}, lease)
}

// Apply applies a strategic merge patch to a node as an API server does.
func Apply(node *v1.Node, patch []byte) (*v1.Node, error) {
	data, err := json.Marshal(node)
	if err != nil {
		return nil, err
	}
	data, err = strategicpatch.StrategicMergePatch(data, patch, v1.Node{})
	if err != nil {
		return nil, err
	}
	out := &v1.Node{}
	return out, json.Unmarshal(data, out)
}

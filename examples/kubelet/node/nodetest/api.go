// Package nodetest has an API server's nodes and Leases in memory, with faults to order,
// and the suite that clients for package node must pass.
package nodetest

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
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

// Call is a call that an API has taken.
type Call struct {
	Verb string
	At   time.Time
	// Patch is the patch of a PatchNode.
	Patch string
}

// API implements the clients of package node. The zero value has nothing in it. It is safe
// for concurrent use.
type API struct {
	// Before is asked before a call has its effect; an error is the answer, and there is no
	// effect. It may wait. After is asked when the effect has happened: its error is an
	// answer that got lost. Both are set before the first call, and may be nil.
	Before, After func(ctx context.Context, call Call) error

	mu       sync.Mutex
	versions int
	nodes    map[string]*v1.Node
	leases   map[string]*coordinationv1.Lease
	calls    []Call
}

// Calls returns the calls so far of some verbs, of all without any.
func (a *API) Calls(verbs ...string) []Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.calls), func(c Call) bool { return len(verbs) > 0 && !slices.Contains(verbs, c.Verb) })
}

// Forget forgets the calls so far.
func (a *API) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = nil
}

// Node returns a node, nil if there is none.
func (a *API) Node(name string) *v1.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nodes[name].DeepCopy()
}

// Lease returns a Lease, nil if there is none.
func (a *API) Lease(name string) *coordinationv1.Lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leases[name].DeepCopy()
}

// Edit changes a node as somebody else does, and makes it if there is none.
func (a *API) Edit(name string, change func(*v1.Node)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	node := a.nodes[name].DeepCopy()
	if node == nil {
		node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	change(node)
	a.putNode(node)
}

// EditLease changes a Lease as somebody else does, and makes it if there is none.
func (a *API) EditLease(name string, change func(*coordinationv1.Lease)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	lease := a.leases[name].DeepCopy()
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	change(lease)
	a.putLease(lease)
}

// Delete removes a node, and with it the Lease that it owns.
func (a *API) Delete(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	node, lease := a.nodes[name], a.leases[name]
	delete(a.nodes, name)
	if node != nil && lease != nil && len(lease.OwnerReferences) > 0 && lease.OwnerReferences[0].UID == node.UID {
		delete(a.leases, name)
	}
}

// version is the next one. a.mu is held, as by the next two.
func (a *API) version() string {
	a.versions++
	return strconv.Itoa(a.versions)
}

func (a *API) putNode(node *v1.Node) {
	if a.nodes == nil {
		a.nodes = map[string]*v1.Node{}
	}
	node.ResourceVersion = a.version()
	if node.UID == "" {
		node.UID = types.UID("node-" + node.ResourceVersion)
	}
	a.nodes[node.Name] = node
}

func (a *API) putLease(lease *coordinationv1.Lease) {
	if a.leases == nil {
		a.leases = map[string]*coordinationv1.Lease{}
	}
	lease.ResourceVersion = a.version()
	if lease.UID == "" {
		lease.UID = types.UID("lease-" + lease.ResourceVersion)
	}
	a.leases[lease.Name] = lease
}

// do runs the effect of a call between the faults, under the lock.
func (a *API) do(ctx context.Context, call Call, effect func() error) error {
	call.At = time.Now()
	a.mu.Lock()
	a.calls = append(a.calls, call)
	a.mu.Unlock()
	if err := ask(ctx, a.Before, call); err != nil {
		return err
	}
	a.mu.Lock()
	err := effect()
	a.mu.Unlock()
	if err != nil {
		return err
	}
	return ask(ctx, a.After, call)
}

func ask(ctx context.Context, fault func(context.Context, Call) error, call Call) error {
	if fault != nil {
		if err := fault(ctx, call); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func nodes() schema.GroupResource { return schema.GroupResource{Resource: "nodes"} }

func leases() schema.GroupResource {
	return schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
}

// GetNode implements node.NodeClient.
func (a *API) GetNode(ctx context.Context, name string) (got *v1.Node, err error) {
	return got, a.do(ctx, Call{Verb: GetNode}, func() error {
		if got = a.nodes[name].DeepCopy(); got == nil {
			return apierrors.NewNotFound(nodes(), name)
		}
		return nil
	})
}

// CreateNode implements node.NodeClient.
func (a *API) CreateNode(ctx context.Context, node *v1.Node) (got *v1.Node, err error) {
	return got, a.do(ctx, Call{Verb: CreateNode}, func() error {
		if a.nodes[node.Name] != nil {
			return apierrors.NewAlreadyExists(nodes(), node.Name)
		}
		made, err := throughJSON(node)
		if err != nil {
			return err
		}
		made.UID = ""
		a.putNode(made)
		got = made.DeepCopy()
		return nil
	})
}

// throughJSON is what a server keeps of a node: times without fractions of seconds.
func throughJSON(node *v1.Node) (*v1.Node, error) {
	data, err := json.Marshal(node)
	if err != nil {
		return nil, err
	}
	out := &v1.Node{}
	return out, json.Unmarshal(data, out)
}

// PatchNodeStatus implements node.NodeClient.
func (a *API) PatchNodeStatus(ctx context.Context, name string, patch []byte) (got *v1.Node, err error) {
	return got, a.do(ctx, Call{Verb: PatchNode, Patch: string(patch)}, func() error {
		old := a.nodes[name]
		if old == nil {
			return apierrors.NewNotFound(nodes(), name)
		}
		patched, err := Apply(old, patch)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if patched.UID != old.UID {
			return apierrors.NewConflict(nodes(), name, nil)
		}
		patched.Spec = *old.Spec.DeepCopy()
		a.putNode(patched)
		got = patched.DeepCopy()
		return nil
	})
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

// GetLease implements node.LeaseClient.
func (a *API) GetLease(ctx context.Context, name string) (got *coordinationv1.Lease, err error) {
	return got, a.do(ctx, Call{Verb: GetLease}, func() error {
		if got = a.leases[name].DeepCopy(); got == nil {
			return apierrors.NewNotFound(leases(), name)
		}
		return nil
	})
}

// CreateLease implements node.LeaseClient.
func (a *API) CreateLease(ctx context.Context, lease *coordinationv1.Lease) (got *coordinationv1.Lease, err error) {
	return got, a.do(ctx, Call{Verb: CreateLease}, func() error {
		if a.leases[lease.Name] != nil {
			return apierrors.NewAlreadyExists(leases(), lease.Name)
		}
		made := lease.DeepCopy()
		a.putLease(made)
		got = made.DeepCopy()
		return nil
	})
}

// UpdateLease implements node.LeaseClient.
func (a *API) UpdateLease(ctx context.Context, lease *coordinationv1.Lease) (got *coordinationv1.Lease, err error) {
	return got, a.do(ctx, Call{Verb: UpdateLease}, func() error {
		switch old := a.leases[lease.Name]; {
		case old == nil:
			return apierrors.NewNotFound(leases(), lease.Name)
		case old.ResourceVersion != lease.ResourceVersion:
			return apierrors.NewConflict(leases(), lease.Name, nil)
		}
		updated := lease.DeepCopy()
		a.putLease(updated)
		got = updated.DeepCopy()
		return nil
	})
}

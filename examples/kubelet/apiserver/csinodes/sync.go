package csinodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/csi"
)

// sync moves the server toward the desired state. It uses the last seen Node only to check that
// there is one: that copy may be outdated and lack entries that must be removed.
func (m *Manager) sync(ctx context.Context) error {
	for n := 1; ; n++ {
		if !mayOwn(m.cfg.Node()) {
			return ErrNoNode
		}
		node, err := m.cfg.Client.OwnNode().GetNode(ctx, m.cfg.NodeName)
		switch {
		case err != nil:
			return fmt.Errorf("node %s: %w", m.cfg.NodeName, err)
		case !mayOwn(node):
			return ErrNoNode
		}
		if err = m.attempt(ctx, node); !moved(err) || n == attempts {
			return err
		}
	}
}

// moved reports whether a call failed because others changed the object.
func moved(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// refused reports whether an error concerns a single driver.
func refused(err error) bool {
	var topology *TopologyError
	return errors.As(err, &topology) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// objects are the two objects with drivers' entries, as read from the server.
type objects struct {
	*Manager
	node    *v1.Node
	csiNode *storagev1.CSINode
}

func (m *Manager) attempt(ctx context.Context, node *v1.Node) error {
	o := &objects{Manager: m, node: node}
	if err := o.ensure(ctx); err != nil {
		return fmt.Errorf("CSINode %s: %w", m.cfg.NodeName, err)
	}
	m.mu.Lock()
	m.initialised = true
	drivers := maps.Clone(m.drivers)
	m.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		if err := o.settle(ctx, name, drivers[name]); err != nil {
			errs = append(errs, fmt.Errorf("CSI driver %s: %w", name, err))
			if !refused(err) {
				return errs[len(errs)-1]
			}
		}
	}
	m.mu.Lock()
	m.done = node.UID
	m.mu.Unlock()
	return errors.Join(errs...)
}

// ensure creates the CSINode if it is missing or owned by another Node.
func (o *objects) ensure(ctx context.Context) error {
	there, err := o.cfg.Client.CSINodes().Get(ctx, o.cfg.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return o.create(ctx)
	}
	if err != nil {
		return err
	}
	o.csiNode = there
	ours, others := owners(there, o.node)
	switch {
	case ours:
		return nil
	case others:
		gone := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &there.UID}}
		if err := o.cfg.Client.CSINodes().Delete(ctx, o.cfg.NodeName, gone); err != nil {
			return err
		}
		return o.create(ctx)
	}
	next := there.DeepCopy()
	next.OwnerReferences = append(next.OwnerReferences, newCSINode(o.node).OwnerReferences...)
	return o.update(ctx, next)
}

func (o *objects) create(ctx context.Context) (err error) {
	o.csiNode, err = o.cfg.Client.CSINodes().Create(ctx, newCSINode(o.node), metav1.CreateOptions{})
	return err
}

func (o *objects) update(ctx context.Context, next *storagev1.CSINode) error {
	now, err := o.cfg.Client.CSINodes().Update(ctx, next, metav1.UpdateOptions{})
	if err == nil {
		o.csiNode = now
	}
	return err
}

// patch writes a driver's data to the Node. nil removes the entry.
func (o *objects) patch(ctx context.Context, driver string, info *csi.NodeInfo) error {
	patch, err := nodePatch(o.node, driver, info)
	if err != nil || patch == nil {
		return err
	}
	now, err := o.cfg.Client.OwnNode().PatchNodeStatus(ctx, o.cfg.NodeName, patch)
	if err == nil {
		o.node = now
	}
	return err
}

func (o *objects) settle(ctx context.Context, driver string, info *csi.NodeInfo) error {
	if info == nil {
		return o.remove(ctx, driver)
	}
	if err := o.patch(ctx, driver, info); err != nil {
		return err
	}
	for range 2 { // the first step may remove an old entry
		next := withEntry(o.csiNode, entryOf(driver, *info))
		if next == nil {
			break
		}
		if err := o.update(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

func (o *objects) remove(ctx context.Context, driver string) error {
	if next := withoutEntry(o.csiNode, driver); next != nil {
		if err := o.update(ctx, next); err != nil {
			return err
		}
	}
	if err := o.patch(ctx, driver, nil); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.drivers[driver] == nil { // unless it has registered again
		delete(o.drivers, driver)
	}
	return nil
}

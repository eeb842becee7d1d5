package csinodes

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/csi"
)

// Annotation is the Node's annotation with a JSON object that maps names of drivers to their IDs of
// the node.
const Annotation = "csi.volume.kubernetes.io/nodeid"

// TopologyError reports a driver whose topology contradicts a label of the Node.
type TopologyError struct{ Driver, Label, Has, Wants string }

// Error names the driver, the label and both values.
func (e *TopologyError) Error() string {
	return fmt.Sprintf("driver %s: label %s of the Node is %q, but the driver's topology requires %q", e.Driver, e.Label, e.Has, e.Wants)
}

// nodePatch returns the patch that adds a driver's data to a Node, or removes its entry if info is
// nil. It returns nil if nothing changes. The patch applies to this version of the Node only,
// because the annotation contains the entries of all drivers.
func nodePatch(node *v1.Node, driver string, info *csi.NodeInfo) ([]byte, error) {
	annotation, annotated, err := annotate(node, driver, info)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	if info != nil {
		for key, value := range info.Topology {
			has, ok := node.Labels[key]
			switch {
			case !ok:
				labels[key] = value
			case has != value:
				return nil, &TopologyError{Driver: driver, Label: key, Has: has, Wants: value}
			}
		}
	}
	if !annotated && len(labels) == 0 {
		return nil, nil
	}
	change := map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion}
	if annotated {
		change["annotations"] = map[string]*string{Annotation: annotation}
	}
	if len(labels) > 0 {
		change["labels"] = labels
	}
	return json.Marshal(map[string]any{"metadata": change})
}

// annotate returns the annotation with or without a driver, or nil if it becomes empty. changed
// reports whether it differs from the Node's.
func annotate(node *v1.Node, driver string, info *csi.NodeInfo) (text *string, changed bool, err error) {
	ids, has := map[string]string{}, node.Annotations[Annotation]
	if has != "" {
		if err := json.Unmarshal([]byte(has), &ids); err != nil {
			return nil, false, fmt.Errorf("annotation %s of the Node: %w", Annotation, err)
		}
	}
	id, there := ids[driver]
	switch {
	case info == nil && !there, info != nil && there && id == info.NodeID:
		return nil, false, nil
	case info == nil:
		delete(ids, driver)
	case ids == nil: // the annotation is "null"
		ids = map[string]string{driver: info.NodeID}
	default:
		ids[driver] = info.NodeID
	}
	if len(ids) == 0 {
		return nil, true, nil
	}
	data, err := json.Marshal(ids)
	return new(string(data)), true, err
}

func entryOf(driver string, info csi.NodeInfo) storagev1.CSINodeDriver {
	e := storagev1.CSINodeDriver{Name: driver, NodeID: info.NodeID, TopologyKeys: slices.Sorted(maps.Keys(info.Topology))}
	if info.MaxVolumes > 0 {
		e.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(min(info.MaxVolumes, math.MaxInt32)))}
	}
	return e
}

// withEntry returns the next step toward a CSINode with this entry, or nil if it has the entry. The
// server allows changes only to the count of an existing entry: another change first removes the
// entry.
func withEntry(have *storagev1.CSINode, e storagev1.CSINodeDriver) *storagev1.CSINode {
	next := have.DeepCopy()
	i := indexOf(next, e.Name)
	if i < 0 {
		next.Spec.Drivers = append(next.Spec.Drivers, e)
		return next
	}
	there := next.Spec.Drivers[i]
	if equality.Semantic.DeepEqual(there, e) {
		return nil
	}
	there.Allocatable = e.Allocatable
	if equality.Semantic.DeepEqual(there, e) {
		next.Spec.Drivers[i] = e
		return next
	}
	return withoutEntry(have, e.Name)
}

// withoutEntry returns the CSINode without a driver's entry, or nil if it has none.
func withoutEntry(have *storagev1.CSINode, driver string) *storagev1.CSINode {
	i := indexOf(have, driver)
	if i < 0 {
		return nil
	}
	next := have.DeepCopy()
	next.Spec.Drivers = slices.Delete(next.Spec.Drivers, i, i+1)
	return next
}

func indexOf(n *storagev1.CSINode, driver string) int {
	return slices.IndexFunc(n.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
}

func newCSINode(node *v1.Node) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name:            node.Name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
	}}
}

// owners reports whether a CSINode is owned by this Node (ours), or by a deleted Node of the same
// name (others).
func owners(n *storagev1.CSINode, node *v1.Node) (ours, others bool) {
	for _, o := range n.OwnerReferences {
		if o.Kind == "Node" {
			ours, others = ours || o.UID == node.UID, others || o.UID != node.UID
		}
	}
	return ours, others
}

// mayOwn reports whether a Node can own a CSINode: it exists and is not being deleted.
func mayOwn(node *v1.Node) bool {
	return node != nil && node.DeletionTimestamp == nil && node.UID != ""
}

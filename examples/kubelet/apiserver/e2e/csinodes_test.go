package e2e

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/apiserver/csinodes"
	"github.com/podwright/podwright/examples/kubelet/csi"
)

type drivers struct {
	mu  sync.Mutex
	has map[string]csi.NodeInfo
}

func (d *drivers) Node(driver string) (csi.NodeInfo, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	info, ok := d.has[driver]
	return info, ok
}

func (d *drivers) set(m *csinodes.Manager, driver string, info *csi.NodeInfo) {
	d.mu.Lock()
	delete(d.has, driver)
	if info != nil {
		d.has[driver] = *info
	}
	d.mu.Unlock()
	m.Look(driver, d)
}

// A node may write all data of its CSI drivers: the CSINode, an annotation and labels of topology.
// The server allows only changes of the count of an entry, and refuses labels that a node may not
// set. A refused entry of one driver does not affect others.
func TestCSINodes(t *testing.T) {
	p := newPlane(t)
	n := p.node(t)
	manager, err := csinodes.New(csinodes.Config{Client: n.Client, NodeName: n.name, Node: func() *v1.Node { return n.object }})
	require.NoError(t, err)
	registered := &drivers{has: map[string]csi.NodeInfo{}}
	apitest.Run(t, manager.Run)
	t.Cleanup(func() { deleteObject(t, p.admin.CSINodes(), n.name) })
	shown := func() *storagev1.CSINode {
		at, err := p.admin.CSINodes().Get(t.Context(), n.name, metav1.GetOptions{})
		if err != nil {
			return &storagev1.CSINode{}
		}
		return at
	}
	// has waits until the CSINode has these drivers and the annotation matches.
	has := func(want ...storagev1.CSINodeDriver) {
		t.Helper()
		eventually(t, "CSINode and annotation have the drivers", func() bool {
			node, err := p.admin.Nodes().Get(t.Context(), n.name, metav1.GetOptions{})
			if err != nil {
				return false
			}
			ids := map[string]string{}
			if text := node.Annotations[csinodes.Annotation]; text != "" {
				require.NoError(t, json.Unmarshal([]byte(text), &ids))
			}
			same := len(ids) == len(want)
			for _, d := range want {
				same = same && ids[d.Name] == d.NodeID
			}
			return same && equality.Semantic.DeepEqual(shown().Spec.Drivers, want)
		})
	}
	eventually(t, "the CSINode exists", func() bool { return shown().UID != "" })
	require.Equal(t, n.object.UID, shown().OwnerReferences[0].UID)

	info := csi.NodeInfo{NodeID: "id-1", MaxVolumes: 7, Topology: map[string]string{"topology.d.example/zone": "a"}}
	entry := storagev1.CSINodeDriver{Name: "d.example", NodeID: "id-1", TopologyKeys: []string{"topology.d.example/zone"},
		Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(7))}}
	registered.set(manager, "d.example", &info)
	has(entry)
	eventually(t, "the manager has no error", func() bool { return manager.Err() == nil })

	// A count is changed in place. For another ID the entry is removed first.
	uid := shown().UID
	info.MaxVolumes, entry.Allocatable = 8, &storagev1.VolumeNodeResources{Count: new(int32(8))}
	registered.set(manager, "d.example", &info)
	has(entry)
	info.NodeID, entry.NodeID = "id-2", "id-2"
	registered.set(manager, "d.example", &info)
	has(entry)
	require.Equal(t, uid, shown().UID)

	registered.set(manager, "bad.example", &csi.NodeInfo{NodeID: "b", Topology: map[string]string{"node-restriction.kubernetes.io/zone": "a"}})
	registered.set(manager, "e.example", &csi.NodeInfo{NodeID: "e"})
	other := storagev1.CSINodeDriver{Name: "e.example", NodeID: "e"}
	has(entry, other)
	eventually(t, "the server refuses the labels", func() bool { return apierrors.IsForbidden(manager.Err()) })
	require.ErrorContains(t, manager.Err(), "CSI driver bad.example")
	registered.set(manager, "bad.example", nil)
	registered.set(manager, "d.example", nil)
	has(other)
	eventually(t, "the manager has no error", func() bool { return manager.Err() == nil })
}

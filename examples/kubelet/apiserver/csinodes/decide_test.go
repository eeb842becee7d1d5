package csinodes

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/csi"
)

func nodeWith(annotation string, labels map[string]string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker", UID: "u", ResourceVersion: "7", Labels: labels}}
	if annotation != "" {
		n.Annotations = map[string]string{Annotation: annotation}
	}
	return n
}

func TestNodePatch(t *testing.T) {
	zone := func(value string) map[string]string { return map[string]string{"topology.d/zone": value} }
	const head = `{"metadata":{`
	const tail = `"resourceVersion":"7","uid":"u"}}`
	for name, x := range map[string]struct {
		node *v1.Node
		info *csi.NodeInfo
		want string
	}{
		"the first driver":         {nodeWith("", nil), &csi.NodeInfo{NodeID: "i"}, head + `"annotations":{"csi.volume.kubernetes.io/nodeid":"{\"d\":\"i\"}"},` + tail},
		"null":                     {nodeWith("null", nil), &csi.NodeInfo{NodeID: "i"}, head + `"annotations":{"csi.volume.kubernetes.io/nodeid":"{\"d\":\"i\"}"},` + tail},
		"beside another":           {nodeWith(`{"a":"b"}`, nil), &csi.NodeInfo{NodeID: "i"}, head + `"annotations":{"csi.volume.kubernetes.io/nodeid":"{\"a\":\"b\",\"d\":\"i\"}"},` + tail},
		"another ID":               {nodeWith(`{"d":"h"}`, nil), &csi.NodeInfo{NodeID: "i"}, head + `"annotations":{"csi.volume.kubernetes.io/nodeid":"{\"d\":\"i\"}"},` + tail},
		"exists already":           {nodeWith(`{"d":"i"}`, zone("a")), &csi.NodeInfo{NodeID: "i", Topology: zone("a")}, ""},
		"a label is missing":       {nodeWith(`{"d":"i"}`, nil), &csi.NodeInfo{NodeID: "i", Topology: zone("a")}, head + `"labels":{"topology.d/zone":"a"},` + tail},
		"gone, beside another":     {nodeWith(`{"a":"b","d":"i"}`, zone("a")), nil, head + `"annotations":{"csi.volume.kubernetes.io/nodeid":"{\"a\":\"b\"}"},` + tail},
		"gone, the last":           {nodeWith(`{"d":"i"}`, zone("a")), nil, head + `"annotations":{"csi.volume.kubernetes.io/nodeid":null},` + tail},
		"gone, and was not there":  {nodeWith(`{"a":"b"}`, nil), nil, ""},
		"gone, without annotation": {nodeWith("", nil), nil, ""},
	} {
		patch, err := nodePatch(x.node, "d", x.info)
		require.NoError(t, err, name)
		require.Equal(t, x.want, string(patch), name)
	}

	_, err := nodePatch(nodeWith("", zone("b")), "d", &csi.NodeInfo{NodeID: "i", Topology: zone("a")})
	var topology *TopologyError
	require.ErrorAs(t, err, &topology)
	require.Equal(t, TopologyError{Driver: "d", Label: "topology.d/zone", Has: "b", Wants: "a"}, *topology)
	require.EqualError(t, err, `driver d: label topology.d/zone of the Node is "b", but the driver's topology requires "a"`)
	_, err = nodePatch(nodeWith("[]", nil), "d", nil)
	require.ErrorContains(t, err, "annotation csi.volume.kubernetes.io/nodeid of the Node: json")
}

func TestEntries(t *testing.T) {
	e := entryOf("d", csi.NodeInfo{NodeID: "i", MaxVolumes: 7, Topology: map[string]string{"b": "", "a": ""}})
	require.Equal(t, storagev1.CSINodeDriver{Name: "d", NodeID: "i", TopologyKeys: []string{"a", "b"}, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(7))}}, e)
	require.Equal(t, storagev1.CSINodeDriver{Name: "d", NodeID: "i"}, entryOf("d", csi.NodeInfo{NodeID: "i", MaxVolumes: -1}))
	require.EqualValues(t, math.MaxInt32, *entryOf("d", csi.NodeInfo{MaxVolumes: math.MaxInt64}).Allocatable.Count)

	other := storagev1.CSINodeDriver{Name: "other", NodeID: "o"}
	have := &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{other}}}
	with := withEntry(have, e)
	require.Equal(t, []storagev1.CSINodeDriver{other, e}, with.Spec.Drivers)
	require.Nil(t, withEntry(with, e), "the entry exists already")
	require.Len(t, have.Spec.Drivers, 1, "the input is unchanged")

	count := entryOf("d", csi.NodeInfo{NodeID: "i", Topology: map[string]string{"b": "", "a": ""}})
	require.Equal(t, []storagev1.CSINodeDriver{other, count}, withEntry(with, count).Spec.Drivers, "a count is changed in place")
	for _, change := range []func(*storagev1.CSINodeDriver){
		func(e *storagev1.CSINodeDriver) { e.NodeID = "j" },
		func(e *storagev1.CSINodeDriver) { e.TopologyKeys = nil },
	} {
		moved := *e.DeepCopy()
		change(&moved)
		step := withEntry(with, moved)
		require.Equal(t, []storagev1.CSINodeDriver{other}, step.Spec.Drivers, "the entry goes first")
		require.Equal(t, []storagev1.CSINodeDriver{other, moved}, withEntry(step, moved).Spec.Drivers)
	}
	require.Equal(t, []storagev1.CSINodeDriver{other}, withoutEntry(with, "d").Spec.Drivers)
	require.Nil(t, withoutEntry(have, "d"))
}

func TestOwners(t *testing.T) {
	node := nodeWith("", nil)
	for name, x := range map[string]struct {
		owners       []metav1.OwnerReference
		ours, others bool
	}{
		"none":           {nil, false, false},
		"this Node":      {newCSINode(node).OwnerReferences, true, false},
		"one before":     {[]metav1.OwnerReference{{Kind: "Node", UID: "before"}}, false, true},
		"something else": {[]metav1.OwnerReference{{Kind: "ConfigMap", UID: "u"}}, false, false},
	} {
		ours, others := owners(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{OwnerReferences: x.owners}}, node)
		require.Equal(t, []bool{x.ours, x.others}, []bool{ours, others}, name)
	}
}

package node_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/kubelet/node/nodetest"
)

// FuzzStatusPatch checks for any two nodes that the patch, applied as by an API server, turns one
// into the other, with conditions in their order, and keeps conditions that were added meanwhile.
func FuzzStatusPatch(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, seed*7)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		old, wanted := randomNode(r), randomNode(r)
		unique(wanted)
		order := kinds(wanted)
		patch, err := node.StatusPatch(old, wanted)
		require.NoError(t, err)

		meanwhile := old.DeepCopy()
		other := v1.NodeCondition{Type: "Meanwhile", Status: v1.ConditionTrue}
		mergeable := unique(old.DeepCopy())
		if mergeable {
			meanwhile.Status.Conditions = append(meanwhile.Status.Conditions, other)
			wanted.Status.Conditions = append(wanted.Status.Conditions, other)
		}
		got, err := nodetest.Apply(meanwhile, patch)
		require.NoError(t, err, "%s", patch)
		require.ElementsMatch(t, wanted.Status.Conditions, got.Status.Conditions, "%s", patch)
		if alone, err := nodetest.Apply(old, patch); mergeable {
			require.NoError(t, err)
			require.True(t, equality.Semantic.DeepEqual(order, kinds(alone)), "%s", patch)
		}
		require.Equal(t, len(wanted.Labels), len(got.Labels))
		wanted.Status.Conditions, got.Status.Conditions = nil, nil
		require.True(t, equality.Semantic.DeepEqual(wanted.Status, got.Status), "%s", patch)
		require.True(t, equality.Semantic.DeepEqual(wanted.Labels, got.Labels))
		require.True(t, equality.Semantic.DeepEqual(wanted.Annotations, got.Annotations))
	})
}

func kinds(n *v1.Node) (kinds []v1.NodeConditionType) {
	for _, c := range n.Status.Conditions {
		kinds = append(kinds, c.Type)
	}
	return kinds
}

// unique removes duplicate conditions of a type, and reports whether there were none.
func unique(n *v1.Node) bool {
	seen, kept := map[v1.NodeConditionType]bool{}, []v1.NodeCondition{}
	for _, c := range n.Status.Conditions {
		if !seen[c.Type] {
			kept = append(kept, c)
		}
		seen[c.Type] = true
	}
	was := len(n.Status.Conditions)
	n.Status.Conditions = kept
	return len(kept) == was
}

func randomNode(r *rand.Rand) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid"}}
	word := func() string { return string(rune('a' + r.IntN(4))) }
	for range r.IntN(3) {
		metav1.SetMetaDataLabel(&n.ObjectMeta, word(), word())
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, word(), word())
	}
	s := &n.Status
	for range r.IntN(4) {
		s.Conditions = append(s.Conditions, v1.NodeCondition{
			Type: v1.NodeConditionType(word()), Status: v1.ConditionStatus(word()), Message: strings.Repeat(word(), r.IntN(2)),
			LastHeartbeatTime: metav1.NewTime(time.Unix(r.Int64N(5)+1, 0)),
		})
		s.Addresses = append(s.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: word()})
		s.Images = append(s.Images, v1.ContainerImage{Names: []string{word()}, SizeBytes: r.Int64N(3)})
		s.VolumesInUse = append(s.VolumesInUse, v1.UniqueVolumeName(word()))
		s.RuntimeHandlers = append(s.RuntimeHandlers, v1.NodeRuntimeHandler{Name: word(), Features: &v1.NodeRuntimeHandlerFeatures{}})
		s.DeclaredFeatures = append(s.DeclaredFeatures, word())
	}
	if r.IntN(3) > 0 {
		yes := r.IntN(2) == 0
		s.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: &yes}
		s.Capacity = v1.ResourceList{v1.ResourceName(word()): resource.MustParse("1"), "cpu": *resource.NewQuantity(r.Int64N(3), resource.DecimalSI)}
		s.NodeInfo.BootID, s.DaemonEndpoints.KubeletEndpoint.Port = word(), int32(r.IntN(2))
	}
	return n
}

func TestStatusPatchContainsChangesOnly(t *testing.T) {
	old := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid", Labels: map[string]string{"a": "b"}}}
	old.Status.Conditions = []v1.NodeCondition{{Type: "A", Status: v1.ConditionTrue, Reason: "x"}, {Type: "B", Status: v1.ConditionTrue}}
	patch, err := node.StatusPatch(old, old)
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"uid":"uid"}}`, string(patch))
	wanted := old.DeepCopy()
	wanted.Spec.Unschedulable = true
	wanted.Labels["c"] = "d"
	wanted.Status.Conditions[1].Status = v1.ConditionFalse
	patch, err = node.StatusPatch(old, wanted)
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"uid":"uid","labels":{"c":"d"}},"status":{"$setElementOrder/conditions":[{"type":"A"},{"type":"B"}],"conditions":[{"type":"B","status":"False"}]}}`, string(patch))
}

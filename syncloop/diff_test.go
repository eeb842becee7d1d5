package syncloop

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// S1, S4: which differences count.
func TestCompare(t *testing.T) {
	for name, edit := range map[string]func(*v1.Pod){
		"label":      func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} },
		"annotation": func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} },
		"grace":      func(p *v1.Pod) { g := int64(0); p.DeletionGracePeriodSeconds = &g },
		"spec":       func(p *v1.Pod) { p.Spec.Containers = []v1.Container{{Name: "c", Image: "x"}} },
	} {
		require.Equal(t, OpUpdate, compare(testPod("a", "1"), testPod("a", "1", edit)), name)
		require.Equal(t, OpDelete, compare(testPod("a", "1"), testPod("a", "1", edit, deleted)), name)
	}
	for name, edit := range map[string]func(*v1.Pod){
		"resource version": func(p *v1.Pod) { p.ResourceVersion = "7" },
		"empty labels":     func(p *v1.Pod) { p.Labels = map[string]string{} },
		"empty list":       func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{} },
		"own annotations": func(p *v1.Pod) {
			p.Annotations = map[string]string{"kubernetes.io/config.seen": "x", "kubernetes.io/config.source": "x", "kubernetes.io/config.mirror": "x"}
		},
	} {
		require.Zero(t, compare(testPod("a", "1"), testPod("a", "1", edit)), name)
	}
	require.Equal(t, OpReconcile, compare(testPod("a", "1"), testPod("a", "1", running)))
	require.Equal(t, OpAdd, compare(nil, testPod("a", "1", deleted)))
}

// S2: all differences come at once, in order, those that are gone by name.
func TestDiff(t *testing.T) {
	handled := map[types.UID]*v1.Pod{}
	for _, pod := range []*v1.Pod{
		testPod("gone", "1"), testPod("upd", "2"), testPod("del", "3"), testPod("rec", "4"), testPod("same", "5"),
		testPod("new-uid", "6"), testPod("renamed", "7"), testPod("moved", "9"),
	} {
		handled[pod.UID] = pod
	}
	var got []string
	for _, c := range Diff(handled, []*v1.Pod{
		testPod("rec", "4", running), testPod("del", "3", deleted), testPod("upd", "2", labelled), testPod("new", "8"),
		testPod("same", "5"), testPod("new-uid", "6b"), testPod("other", "7"),
		testPod("moved", "9", func(p *v1.Pod) { p.Namespace = "other" }),
	}) {
		got = append(got, c.Op.String()+" "+names(c.Pods))
	}
	require.Equal(t, []string{"REMOVE gone,moved,new-uid,renamed", "ADD new,new-uid,other,moved", "UPDATE upd", "DELETE del", "RECONCILE rec"}, got)
	require.Empty(t, Diff(nil, nil))
	require.Len(t, handled, 8)
}

package syncloop

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A newer version of the old pod does not take the name from the new pod.
func TestDesiredUpdateOfPredecessor(t *testing.T) {
	var d Desired
	d.Set(testPod("a", "1", from("file")))
	successor := testPod("a", "2", from("file"))
	d.Set(successor)
	d.Set(mirrorPod("a", "m"))
	d.Set(testPod("a", "1", from("file"), isDeleting))
	require.Same(t, successor, d.ByName("ns", "a"))
	require.Equal(t, types.UID("2"), d.Translate("m"))
}

// After any sequence of calls the indexes are consistent.
func TestDesiredRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var d Desired
	pods := map[types.UID]*v1.Pod{}
	for range 1000 {
		uid := types.UID(fmt.Sprint(random.IntN(20)))
		if random.IntN(3) == 0 {
			d.Remove(testPod("any", uid))
			delete(pods, uid)
		} else {
			pods[uid] = testPod(fmt.Sprint(random.IntN(5)), uid, createdAt(int64(random.IntN(4))))
			d.Set(pods[uid])
		}
		want := slices.SortedFunc(maps.Values(pods), compareCreation)
		require.Equal(t, want, slices.AppendSeq([]*v1.Pod(nil), slices.Values(d.Pods())))
		present := map[string]bool{}
		for _, pod := range want {
			require.Same(t, pod, d.Get(pod.UID))
			present[pod.Name] = true
		}
		for i := range 5 {
			name := fmt.Sprint(i)
			pod := d.ByName("ns", name)
			require.Equal(t, present[name], pod != nil)
			if pod != nil {
				require.Same(t, pods[pod.UID], pod)
				require.Equal(t, name, pod.Name)
			}
		}
	}
	for uid := range pods {
		d.Remove(pods[uid])
	}
	require.Empty(t, d.pods.byName)
	require.Empty(t, d.pods.sorted)
}

// S1, S4: the differences that count.
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

// S2: all differences come at once, in order, removals sorted by name.
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

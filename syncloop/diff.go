package syncloop

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
)

// Diff returns what leads from the pods that were handled to the newest set of a
// source: at most one Change per operation, in the order in which they are to be
// handled. A pod is new (OpAdd), gone (OpRemove), or different: in spec, labels,
// deletion or annotations (OpUpdate, with a deletion timestamp OpDelete), or in its
// status alone (OpReconcile). Nothing else counts, and of annotations those that a
// kubelet writes itself do not. A pod whose name changes under its UID is removed
// and added.
//
// The pods of the set are in it once, by UID. Nothing is changed; the pods returned
// are those that were passed in.
func Diff(handled map[types.UID]*v1.Pod, newest []*v1.Pod) []Change {
	var byOp [opEnd][]*v1.Pod
	stayed := 0
	for _, pod := range newest {
		old := handled[pod.UID]
		if old != nil {
			stayed++
		}
		if renamed(old, pod) {
			byOp[OpRemove] = append(byOp[OpRemove], old)
			old = nil
		}
		if op := compare(old, pod); op != 0 {
			byOp[op] = append(byOp[op], pod)
		}
	}
	if stayed < len(handled) {
		byOp[OpRemove] = append(byOp[OpRemove], missing(handled, newest)...)
	}
	slices.SortFunc(byOp[OpRemove], func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(podfacts.FullName(a), podfacts.FullName(b)), cmp.Compare(a.UID, b.UID))
	})
	var changes []Change
	for op, pods := range byOp {
		if len(pods) > 0 {
			changes = append(changes, Change{Op: Op(op), Pods: pods})
		}
	}
	return changes
}

// renamed tells whether a pod is called otherwise than before. Nothing that exists
// can be renamed: it is another pod.
func renamed(old, pod *v1.Pod) bool {
	return old != nil && (old.Name != pod.Name || old.Namespace != pod.Namespace)
}

// missing returns the handled pods that the newest set does not have.
func missing(handled map[types.UID]*v1.Pod, newest []*v1.Pod) []*v1.Pod {
	present := make(map[types.UID]bool, len(newest))
	for _, pod := range newest {
		present[pod.UID] = true
	}
	var gone []*v1.Pod
	for uid, pod := range handled {
		if !present[uid] {
			gone = append(gone, pod)
		}
	}
	return gone
}

// compare says by which operation a pod goes from old to new, 0 for none. old is
// nil for a pod that was not there.
func compare(old, pod *v1.Pod) Op {
	switch {
	case old == nil:
		return OpAdd
	case old == pod:
		return 0
	case !semanticallyEqual(old, pod):
		if pod.DeletionTimestamp != nil {
			return OpDelete
		}
		return OpUpdate
	case !equality.Semantic.DeepEqual(old.Status, pod.Status):
		return OpReconcile
	}
	return 0
}

// semanticallyEqual compares what a pod is meant to be. Its status, and what
// this side wrote into it, do not count.
func semanticallyEqual(a, b *v1.Pod) bool {
	return a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) &&
		maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(foreignAnnotations(a), foreignAnnotations(b)) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// foreignAnnotations are the annotations without those a kubelet adds itself.
func foreignAnnotations(pod *v1.Pod) map[string]string {
	foreign := maps.Clone(pod.Annotations)
	delete(foreign, podfacts.ConfigSource)
	delete(foreign, podfacts.ConfigMirror)
	delete(foreign, podfacts.ConfigSeen)
	return foreign
}

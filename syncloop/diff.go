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

// Diff returns the changes from the handled pods to the newest set of a source: at most one Change
// per operation, in the order of handling. A pod is added (OpAdd), removed (OpRemove), changed in
// spec, labels, annotations or deletion (OpUpdate; OpDelete with a deletion timestamp), or changed
// in its status only (OpReconcile). Other fields are ignored, and so are annotations that a
// kubelet writes itself. A pod that gets another name under its UID is removed and added.
//
// Each UID occurs once in newest. Diff changes none of its arguments and returns the pods that it
// was passed.
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

// renamed reports whether the name or namespace of a UID changed. Kubernetes objects cannot be
// renamed, so it is another pod.
func renamed(old, pod *v1.Pod) bool {
	return old != nil && (old.Name != pod.Name || old.Namespace != pod.Namespace)
}

func missing(handled map[types.UID]*v1.Pod, newest []*v1.Pod) []*v1.Pod {
	present := make(map[types.UID]bool, len(newest))
	for _, pod := range newest {
		present[pod.UID] = true
	}
	var removed []*v1.Pod
	for uid, pod := range handled {
		if !present[uid] {
			removed = append(removed, pod)
		}
	}
	return removed
}

// compare returns the operation from old to pod, or 0 for no difference. old is nil for a new pod.
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

// semanticallyEqual compares the desired state of two versions. It ignores the status and the
// annotations that a kubelet writes.
func semanticallyEqual(a, b *v1.Pod) bool {
	return a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) &&
		maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(foreignAnnotations(a), foreignAnnotations(b)) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// foreignAnnotations returns the annotations without the kubelet's own.
func foreignAnnotations(pod *v1.Pod) map[string]string {
	foreign := maps.Clone(pod.Annotations)
	delete(foreign, podfacts.ConfigSource)
	delete(foreign, podfacts.ConfigMirror)
	delete(foreign, podfacts.ConfigSeen)
	return foreign
}

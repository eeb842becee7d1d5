package podsource

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/syncloop"
)

// diff returns what leads from the pods handled last to the newest set, in the
// order in which it is to be handled. first tells that the source has not been
// handled before: it is then heard even when it has nothing to say.
func diff(source string, handled map[types.UID]*v1.Pod, newest []*v1.Pod, first bool) []syncloop.Change {
	byOp := map[syncloop.Op][]*v1.Pod{}
	stayed := 0
	for _, pod := range newest {
		old := handled[pod.UID]
		if old != nil {
			stayed++
		}
		if old != nil && nameOf(old) != nameOf(pod) {
			// Nothing that exists can be renamed: it is another pod.
			byOp[syncloop.OpRemove] = append(byOp[syncloop.OpRemove], old)
			old = nil
		}
		if op, changed := compare(old, pod); changed {
			byOp[op] = append(byOp[op], pod)
		}
	}
	if stayed < len(handled) {
		byOp[syncloop.OpRemove] = append(byOp[syncloop.OpRemove], missing(handled, newest)...)
	}
	slices.SortFunc(byOp[syncloop.OpRemove], func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(podfacts.FullName(a), podfacts.FullName(b)), cmp.Compare(a.UID, b.UID))
	})
	var changes []syncloop.Change
	add := func(op syncloop.Op, even bool) {
		if pods := byOp[op]; len(pods) > 0 || even {
			changes = append(changes, syncloop.Change{Op: op, Source: source, Pods: pods})
		}
	}
	add(syncloop.OpRemove, false)
	add(syncloop.OpAdd, false)
	add(syncloop.OpUpdate, false)
	add(syncloop.OpDelete, false)
	if silent := len(byOp[syncloop.OpAdd])+len(byOp[syncloop.OpUpdate])+len(byOp[syncloop.OpDelete]) == 0; first && silent {
		add(syncloop.OpAdd, true)
	}
	add(syncloop.OpReconcile, false)
	return changes
}

// missing returns the handled pods that the newest set does not have.
func missing(handled map[types.UID]*v1.Pod, newest []*v1.Pod) []*v1.Pod {
	present := byUID(newest)
	var gone []*v1.Pod
	for uid, pod := range handled {
		if present[uid] == nil {
			gone = append(gone, pod)
		}
	}
	return gone
}

// compare says by which operation a pod goes from old to new, if by any. old is
// nil for a pod that was not there.
func compare(old, pod *v1.Pod) (op syncloop.Op, changed bool) {
	switch {
	case old == nil:
		return syncloop.OpAdd, true
	case old == pod:
		return 0, false
	case !semanticallyEqual(old, pod) && pod.DeletionTimestamp != nil:
		return syncloop.OpDelete, true
	case !semanticallyEqual(old, pod):
		return syncloop.OpUpdate, true
	case !equality.Semantic.DeepEqual(old.Status, pod.Status):
		return syncloop.OpReconcile, true
	}
	return 0, false
}

// semanticallyEqual compares what a pod is meant to be. Its status, and what
// this side wrote into it, do not count.
func semanticallyEqual(a, b *v1.Pod) bool {
	return equalTime(a.DeletionTimestamp, b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) &&
		maps.Equal(a.Labels, b.Labels) &&
		maps.Equal(foreignAnnotations(a), foreignAnnotations(b)) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec)
}

func equalTime(a, b *metav1.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(b)
}

// foreignAnnotations are the annotations without those a kubelet adds itself.
func foreignAnnotations(pod *v1.Pod) map[string]string {
	foreign := maps.Clone(pod.Annotations)
	delete(foreign, podfacts.ConfigSource)
	delete(foreign, podfacts.ConfigMirror)
	delete(foreign, podfacts.ConfigSeen)
	return foreign
}

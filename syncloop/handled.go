package syncloop

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// handledSet is what the handler was told of one source. Its newest set is held
// against this. It is bounded by the number of pods.
type handledSet struct {
	// heard tells that a call about the source worked, so that the handler knows
	// that there is one.
	heard bool
	// told are the pods as the handler heard of them last.
	told map[types.UID]*v1.Pod
	// failed are those of them over which it panicked, and in which operation. How
	// far it came is unknown, so they differ until a call works, whatever the set
	// says by then.
	failed map[types.UID]Op
}

func newHandledSet() *handledSet {
	return &handledSet{told: map[types.UID]*v1.Pod{}, failed: map[types.UID]Op{}}
}

// changes returns what the handler has to be told to get to the newest set. Pods
// that failed are left out.
func (s *handledSet) changes(newest []*v1.Pod) []Change {
	if len(newest) == 0 && len(s.told) == 0 && !s.heard {
		return []Change{{Op: OpAdd}}
	}
	return Diff(s.told, newest)
}

// ready returns those pods of a change that the handler may be told of now. A pod
// that failed waits; so does one that follows under its UID.
func (s *handledSet) ready(pods []*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool { return s.failed[pod.UID] != 0 })
}

// repeat returns what the handler has to be told of a pod that failed, in order.
// newest is its newest version, nil if it is gone.
func (s *handledSet) repeat(uid types.UID, newest *v1.Pod) []Change {
	told, failed := s.told[uid], s.failed[uid]
	remove := Change{Op: OpRemove, Pods: []*v1.Pod{told}}
	switch {
	case newest == nil:
		return []Change{remove}
	case failed == OpRemove || renamed(told, newest):
		return []Change{remove, {Op: OpAdd, Pods: []*v1.Pod{newest}}}
	}
	return []Change{{Op: stronger(failed, compare(told, newest)), Pods: []*v1.Pod{newest}}}
}

// stronger returns the operation that contains the other one.
func stronger(a, b Op) Op {
	for _, op := range []Op{OpAdd, OpDelete, OpUpdate} {
		if a == op || b == op {
			return op
		}
	}
	return OpReconcile
}

// note notes what became of a call about pods.
func (s *handledSet) note(c Change, worked bool) {
	s.heard = s.heard || worked
	for _, pod := range c.Pods {
		switch {
		case worked && c.Op == OpRemove:
			delete(s.told, pod.UID)
			delete(s.failed, pod.UID)
		case worked:
			s.told[pod.UID] = pod
			delete(s.failed, pod.UID)
		default:
			s.told[pod.UID] = pod
			s.failed[pod.UID] = c.Op
		}
	}
}

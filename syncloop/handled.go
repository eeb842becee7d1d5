package syncloop

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// handledSet is the state of one source as passed to the handler. Its size is bounded by the
// number of pods.
type handledSet struct {
	// succeeded is true after a successful call for the source, so that the handler has seen the
	// source.
	succeeded bool
	// passed are the versions last passed to the handler.
	passed map[types.UID]*v1.Pod
	// failed are the pods in passed on which the handler panicked, with the operation. The effect of
	// the failed call is unknown, so these pods differ until a call succeeds, even if the set
	// changes back.
	failed map[types.UID]Op
}

func newHandledSet() *handledSet {
	return &handledSet{passed: map[types.UID]*v1.Pod{}, failed: map[types.UID]Op{}}
}

// changes returns the changes from the handled set to newest, also for failed pods.
func (s *handledSet) changes(newest []*v1.Pod) []Change {
	if len(newest) == 0 && len(s.passed) == 0 && !s.succeeded {
		return []Change{{Op: OpAdd}}
	}
	return Diff(s.passed, newest)
}

// ready returns the pods of a change that may be passed now. A failed pod waits, and so does a pod
// that reuses its UID.
func (s *handledSet) ready(pods []*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool { return s.failed[pod.UID] != 0 })
}

// repeat returns the changes to pass for a failed pod, in order. newest is its newest version, or
// nil if the source no longer has it.
func (s *handledSet) repeat(uid types.UID, newest *v1.Pod) []Change {
	passed, failed := s.passed[uid], s.failed[uid]
	remove := Change{Op: OpRemove, Pods: []*v1.Pod{passed}}
	switch {
	case newest == nil:
		return []Change{remove}
	case failed == OpRemove || renamed(passed, newest):
		return []Change{remove, {Op: OpAdd, Pods: []*v1.Pod{newest}}}
	}
	return []Change{{Op: stronger(failed, compare(passed, newest)), Pods: []*v1.Pod{newest}}}
}

// stronger returns the operation that includes both.
func stronger(a, b Op) Op {
	for _, op := range []Op{OpAdd, OpDelete, OpUpdate} {
		if a == op || b == op {
			return op
		}
	}
	return OpReconcile
}

func (s *handledSet) record(c Change, worked bool) {
	s.succeeded = s.succeeded || worked
	for _, pod := range c.Pods {
		switch {
		case worked && c.Op == OpRemove:
			delete(s.passed, pod.UID)
			delete(s.failed, pod.UID)
		case worked:
			s.passed[pod.UID] = pod
			delete(s.failed, pod.UID)
		default:
			s.passed[pod.UID] = pod
			s.failed[pod.UID] = c.Op
		}
	}
}

package syncloop

import (
	"cmp"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/run"
)

// Order sorts pods in place into the order of admission. It returns an error for a requirement
// that it cannot satisfy; the pods are completely ordered in that case, too. ByCreation and
// ByPriority are Orders.
//
// An order applies to the pods that are new at the same time: the pods of one set of one source, or
// the pods that restart in one housekeeping. After a restart of the agent these are all pods of a
// source, running or not.
type Order func(pods []*v1.Pod) error

// ByCreation orders pods by creation timestamp, oldest first, then by UID. It is the default.
func ByCreation(pods []*v1.Pod) error {
	slices.SortStableFunc(pods, compareCreation)
	return nil
}

// ByPriority orders pods by spec.priority, highest first, then by creation. A pod without priority
// has the fixed value of its priority class if that is one of the two system classes, else 0. So
// critical pods are first.
func ByPriority(pods []*v1.Pod) error {
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(priority(b), priority(a)), compareCreation(a, b))
	})
	return nil
}

func compareCreation(a, b *v1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}

const (
	nodeCritical            = "system-node-critical"
	nodeCriticalPriority    = 2_000_001_000
	clusterCritical         = "system-cluster-critical"
	clusterCriticalPriority = 2_000_000_000
)

func priority(pod *v1.Pod) int32 {
	switch {
	case pod.Spec.Priority != nil:
		return *pod.Spec.Priority
	case pod.Spec.PriorityClassName == nodeCritical:
		return nodeCriticalPriority
	case pod.Spec.PriorityClassName == clusterCritical:
		return clusterCriticalPriority
	}
	return 0
}

// applyOrder runs an order. If it panics, or loses or adds pods, the result is in the order of
// ByCreation, with an error.
func applyOrder(order Order, pods []*v1.Pod) ([]*v1.Pod, error) {
	result := slices.Clone(pods)
	var err error
	panicked := run.Guard("admission order", func() error { err = order(result); return nil })
	if panicked == nil && isPermutation(pods, result) {
		return result, err
	}
	if panicked == nil {
		panicked = errors.New("admission order lost or added pods")
	}
	result = slices.Clone(pods)
	return result, errors.Join(err, panicked, ByCreation(result))
}

func isPermutation(a, b []*v1.Pod) bool {
	counts := make(map[*v1.Pod]int, len(a))
	for i := range a {
		counts[a[i]]++
		counts[b[i]]--
	}
	for _, n := range counts {
		if n != 0 {
			return false
		}
	}
	return true
}

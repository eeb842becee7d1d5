package syncloop

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func withPriority(n int32) func(*v1.Pod) { return func(pod *v1.Pod) { pod.Spec.Priority = &n } }

func withPriorityClass(name string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.PriorityClassName = name }
}

func TestOrders(t *testing.T) {
	for name, c := range map[string]struct {
		order Order
		pods  []*v1.Pod
		want  string
	}{
		"creation, then UID": {
			order: ByCreation,
			pods:  []*v1.Pod{testPod("c", "3", createdAt(2)), testPod("b", "2", createdAt(1)), testPod("a", "1", createdAt(1))},
			want:  "a,b,c",
		},
		"priority, then creation": {
			order: ByPriority,
			pods: []*v1.Pod{
				testPod("none", "1"), testPod("below", "2", withPriority(-1)), testPod("young", "3", withPriority(5), createdAt(9)),
				testPod("old", "4", withPriority(5), createdAt(8)), testPod("cluster", "5", withPriorityClass("system-cluster-critical")),
				testPod("node", "6", withPriorityClass("system-node-critical")), testPod("unknown class", "7", withPriorityClass("gold")), testPod("zero", "8", withPriority(0)), testPod("least", "9", withPriority(1)),
				testPod("last zero", "0", withPriority(0)),
			},
			want: "node,cluster,old,young,least,last zero,none,unknown class,zero,below",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 3 { // the result is independent of the initial order
				rand.Shuffle(len(c.pods), func(i, j int) { c.pods[i], c.pods[j] = c.pods[j], c.pods[i] })
				require.NoError(t, c.order(c.pods))
				require.Equal(t, c.want, names(c.pods))
			}
		})
	}
}

// An order that panics, or returns other pods than it received, is replaced.
func TestInvalidOrders(t *testing.T) {
	pods := []*v1.Pod{testPod("b", "2"), testPod("a", "1")}
	for want, order := range map[string]Order{
		"panicked: no":  func([]*v1.Pod) error { panic("no") },
		"lost":          func(pods []*v1.Pod) error { pods[0] = pods[1]; return errors.New("and more") },
		"lost or added": func(pods []*v1.Pod) error { pods[0] = testPod("x", "x"); return nil },
	} {
		got, err := applyOrder(order, pods)
		require.ErrorContains(t, err, want)
		require.Equal(t, "a,b", names(got))
		require.Equal(t, "b,a", names(pods), "the caller's slice is unchanged")
	}
	got, err := applyOrder(func([]*v1.Pod) error { return errors.New("unsatisfied") }, pods)
	require.EqualError(t, err, "unsatisfied")
	require.Equal(t, "b,a", names(got))
}

package agent

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// thisNode is the Node with its labels, as the API server has it if it is known.
func (g *ground) thisNode() *v1.Node {
	if g.cluster != nil {
		if seen := g.cluster.thisNode(); seen != nil {
			return seen
		}
	}
	return g.localNode()
}

// current are the pods that a source names or that are not gone yet, with what they were
// granted.
func (n *node) current() map[types.UID]*v1.Pod {
	out := map[types.UID]*v1.Pod{}
	for _, s := range n.workers.Pods() {
		if s.Pod != nil && !s.ShouldBeFinished() {
			out[s.UID] = s.Pod
		}
	}
	for _, pod := range n.syncer.Desired().Pods() {
		out[pod.UID] = n.allocation.Allocated(pod)
	}
	return out
}

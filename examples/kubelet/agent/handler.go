package agent

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/eviction"
)

// admit refuses a pod that asks for what is not there.
func (n *node) admit(pod *v1.Pod, active []*v1.Pod) error {
	if why := eviction.Refusal(pod, n.evictor.Pressure()); why != nil && !n.hasBegun(pod) {
		return why
	}
	if errs := n.notSupported(pod, n.health.Health().Features); len(errs) > 0 {
		return syncloop.Reject("UnsupportedPodSpec", "%v", errors.Join(errs...))
	}
	if err := n.wrongNode(pod); err != nil {
		return err
	}
	if errs := pods.ForbiddenSysctls(pod); len(errs) > 0 {
		return syncloop.Reject("SysctlForbidden", "%v", errors.Join(errs...))
	}
	if err := enoughExtended(pod, active, n.thisNode()); err != nil {
		return err
	}
	return syncloop.FreeHostPorts(n.syncer.Desired()).Admit(pod, active)
}

// thisNode is the Node with its labels, as the API server has it if it is known.
func (n *node) thisNode() *v1.Node {
	if n.cluster != nil {
		if seen := n.cluster.thisNode(); seen != nil {
			return seen
		}
	}
	return n.localNode()
}

// current are the pods that a source names or that are not gone yet.
func (n *node) current() map[types.UID]*v1.Pod {
	out := map[types.UID]*v1.Pod{}
	for _, s := range n.workers.Pods() {
		if s.Pod != nil && !s.ShouldBeFinished() {
			out[s.UID] = s.Pod
		}
	}
	for _, pod := range n.syncer.Desired().Pods() {
		out[pod.UID] = pod
	}
	return out
}

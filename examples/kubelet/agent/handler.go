package agent

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
)

// admit refuses a pod that asks for what is not there.
func (n *node) admit(pod *v1.Pod, _ []*v1.Pod) error {
	if errs := append(unsupported(pod, n.health.Health().Features), otherNode(pod, n.cfg.Flags.NodeName)...); len(errs) > 0 {
		return syncloop.Reject("UnsupportedPodSpec", "%v", errors.Join(errs...))
	}
	if errs := pods.ForbiddenSysctls(pod); len(errs) > 0 {
		return syncloop.Reject("SysctlForbidden", "%v", errors.Join(errs...))
	}
	return nil
}

// reject records that a pod has failed without ever having run.
func (n *node) reject(pod *v1.Pod, why syncloop.Rejection) {
	n.statuses.Set(pod, status.Reject(pod, why.Reason, why.Message))
	n.event.warn(pod, why.Reason, errors.New(why.Message))
}

// phase is the newest phase of a pod: the computed one, if there is one. A status
// without a worker is that of an earlier pod with the UID.
func (n *node) phase(pod *v1.Pod) v1.PodPhase {
	if s := n.statuses.Get(pod.UID); s != nil && n.workers.State(pod.UID).State != podworkers.StateUnknown {
		return s.Phase
	}
	return pod.Status.Phase
}

// named tells whether a source names the pod.
func (g *ground) named(uid types.UID) bool { return g.desired.Get(uid) != nil }

// gone tells whether nobody needs anything of a pod any more.
func (n *node) gone(uid types.UID) bool {
	return n.merger.Ready() && !n.named(uid) && n.workers.State(uid).ShouldBeFinished()
}

// current are the pods that a source names or that are not gone yet.
func (n *node) current() map[types.UID]*v1.Pod {
	out := map[types.UID]*v1.Pod{}
	for _, s := range n.workers.Pods() {
		if s.Pod != nil && !s.ShouldBeFinished() {
			out[s.UID] = s.Pod
		}
	}
	for _, pod := range n.desired.Pods() {
		out[pod.UID] = pod
	}
	return out
}

func (n *node) cleanStatuses(_ context.Context, c *syncloop.Cleanup) error {
	wanted := func(uid types.UID) bool {
		_, known := c.Known[uid]
		return known || n.named(uid)
	}
	n.statuses.Prune(wanted)
	n.probes.Prune(wanted)
	n.checkpoints.Prune(wanted)
	n.observer.keep(wanted)
	return nil
}

// orphans are the pods that run and that no source and no worker knows. They are
// told from memory, since the sync loop waits for nobody: whoever stops one looks
// at it first.
func (n *node) orphans(context.Context) ([]podworkers.RuntimePod, error) {
	if err := n.observer.Healthy(); err != nil {
		return nil, err
	}
	var out []podworkers.RuntimePod
	for _, p := range n.observer.Pods() {
		if !p.Stopped() && !n.named(p.UID) && n.workers.State(p.UID).State == podworkers.StateUnknown {
			out = append(out, podworkers.RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace})
		}
	}
	return out, nil
}

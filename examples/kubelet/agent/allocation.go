package agent

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/allocation"
)

// newAllocation builds the allocation of resources. Resizes get no resources that fit keeps for a
// critical pod.
func newAllocation(in *inputs, fit *admission.Fit) (*allocation.Manager, error) {
	return allocation.New(allocation.Config{
		Store: in.allocated,
		Rules: resizeRules(&in.cfg.Kubelet),
		Fit: func(pod *v1.Pod, others []*v1.Pod) error {
			return enoughCompute(pod, fit.Contenders(pod, others), in.allocatable())
		},
		Ready:   in.sources.merger.Ready,
		Metrics: in.cfg.Metrics.Pods.Resizes(),
		Event:   in.recorder.event,
		Logger:  in.cfg.Logger,
	})
}

func resizeRules(k *kubeletv1beta1.KubeletConfiguration) allocation.Rules {
	rules := allocation.Rules{StaticCPU: k.CPUManagerPolicy == "static", StaticMemory: k.MemoryManagerPolicy == "Static"}
	if k.MemorySwap.SwapBehavior == config.LimitedSwap {
		rules.Swaps = swaps
	}
	return rules
}

// swaps reports whether a container gets a share of limited swap.
func swaps(pod *v1.Pod, c *v1.Container) bool {
	return podfacts.QOSClass(pod) == v1.PodQOSBurstable && !podfacts.IsCritical(pod) &&
		c.Resources.Requests.Memory().Cmp(*c.Resources.Limits.Memory()) != 0
}

// enoughCompute rejects a pod if allocatable has too little cpu or memory for it and others.
func enoughCompute(pod *v1.Pod, others []*v1.Pod, allocatable v1.ResourceList) error {
	for _, short := range admission.Shortages(pod, others, allocatable) {
		if short.Name == v1.ResourceCPU || short.Name == v1.ResourceMemory {
			return syncloop.Reject(short.Reason(), "%v", short)
		}
	}
	return nil
}

// amend sets the conditions of a pod's resize in its status.
func amend(m *allocation.Manager, pod *v1.Pod, s v1.PodStatus) v1.PodStatus {
	if podfacts.IsTerminalPhase(s.Phase) || podfacts.IsStatic(pod) {
		return s
	}
	now := time.Now()
	switch w, waits := m.Waiting(pod.UID); {
	case !m.Decided(): // the status of the previous agent stays
	case !waits:
		s = status.WithoutResizePending(s)
	case !reportsWaiting(s, w):
		s = status.WithResizePending(s, w.Generation, podwright.Reason{Reason: w.Reason, Message: w.Message}, now)
	}
	if m.Begun(pod) {
		s = status.WithResizeInProgress(status.WithoutResizeInProgress(s), pod.Generation, podwright.Reason{}, now)
	}
	return s
}

// reportsWaiting reports whether a status already shows that a resize waits.
func reportsWaiting(s v1.PodStatus, w allocation.Waiting) bool {
	c := podfacts.Condition(s.Conditions, v1.PodResizePending)
	return c != nil && c.Reason == w.Reason && c.Message == w.Message && c.ObservedGeneration == w.Generation
}

// actuated is a resize.Store of the resources that the runtime last received for each pod.
type actuated struct{ *allocation.Store }

func (a actuated) Load(uid types.UID) (actions.Actuated, error) {
	r, _ := a.Get(uid)
	return actions.Actuated{Containers: r.ContainerResources, Pod: r.PodLevelResources}, nil
}

func (a actuated) Save(uid types.UID, now actions.Actuated) error {
	if now.Empty() {
		a.Remove(uid)
		return nil
	}
	return a.Set(uid, allocation.Resources{ContainerResources: now.Containers, PodLevelResources: now.Pod})
}

package agent

import (
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/actions"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/admission"
	"github.com/podwright/podwright/syncloop/allocation"
)

// granted is what pods were granted of cpu and memory, and what the runtime was told.
type granted struct {
	allocated  *allocation.Store
	told       told
	allocation *allocation.Manager // not before newNode
}

// openGranted reads both. A file that makes no sense keeps the agent from starting.
func openGranted(root string) (g granted, err error) {
	if g.allocated, err = allocation.Open(filepath.Join(root, allocation.AllocatedFile)); err != nil {
		return g, err
	}
	g.told.Store, err = allocation.Open(filepath.Join(root, allocation.ActuatedFile))
	return g, err
}

// newAllocation grants resizes no room that fit keeps for a critical pod.
func (g *ground) newAllocation(fit *admission.Fit) (*allocation.Manager, error) {
	return allocation.New(allocation.Config{
		Store: g.allocated,
		Rules: g.resizeRules(),
		Fit: func(pod *v1.Pod, others []*v1.Pod) error {
			return enoughCompute(pod, fit.Contenders(pod, others), g.allocatable())
		},
		Ready:   g.merger.Ready,
		Metrics: g.cfg.Metrics.Pods.Resizes(),
		Event:   g.event,
		Logger:  g.cfg.Logger,
	})
}

// resizeRules say which resizes are infeasible here.
func (g *ground) resizeRules() allocation.Rules {
	k := &g.cfg.Kubelet
	rules := allocation.Rules{StaticCPU: k.CPUManagerPolicy == "static", StaticMemory: k.MemoryManagerPolicy == "Static"}
	if k.MemorySwap.SwapBehavior == config.LimitedSwap {
		rules.Swaps = swaps
	}
	return rules
}

// swaps tells whether a container gets a share of limited swap.
func swaps(pod *v1.Pod, c *v1.Container) bool {
	return podfacts.QOSClass(pod) == v1.PodQOSBurstable && !podfacts.IsCritical(pod) &&
		c.Resources.Requests.Memory().Cmp(*c.Resources.Limits.Memory()) != 0
}

// enoughCompute rejects a pod for which a node with so much allocatable has not enough cpu
// or memory left beside the others.
func enoughCompute(pod *v1.Pod, others []*v1.Pod, allocatable v1.ResourceList) error {
	for _, short := range admission.Shortages(pod, others, allocatable) {
		if short.Name == v1.ResourceCPU || short.Name == v1.ResourceMemory {
			return syncloop.Reject(short.Reason(), "%v", short)
		}
	}
	return nil
}

// amend puts into a pod's status what is said of its resize.
func (g *granted) amend(pod *v1.Pod, s v1.PodStatus) v1.PodStatus {
	if podfacts.IsTerminalPhase(s.Phase) || podfacts.IsStatic(pod) {
		return s
	}
	now := time.Now()
	switch w, waits := g.allocation.Waiting(pod.UID); {
	case !g.allocation.Decided(): // what the agent before has said holds
	case !waits:
		s = status.WithoutResizePending(s)
	case !saysSo(s, w):
		s = status.WithResizePending(s, w.Generation, status.Reason{Reason: w.Reason, Message: w.Message}, now)
	}
	if g.allocation.Begun(pod) {
		s = status.WithResizeInProgress(status.WithoutResizeInProgress(s), pod.Generation, status.Reason{}, now)
	}
	return s
}

// saysSo tells whether a status says already that a resize waits.
func saysSo(s v1.PodStatus, w allocation.Waiting) bool {
	c := podfacts.Condition(s.Conditions, v1.PodResizePending)
	return c != nil && c.Reason == w.Reason && c.Message == w.Message && c.ObservedGeneration == w.Generation
}

// told is a resize.Store: what the runtime was last told of pods.
type told struct{ *allocation.Store }

// Load implements resize.Store.
func (t told) Load(uid types.UID) (actions.Actuated, error) {
	r, _ := t.Get(uid)
	return actions.Actuated{Containers: r.ContainerResources, Pod: r.PodLevelResources}, nil
}

// Save implements resize.Store.
func (t told) Save(uid types.UID, a actions.Actuated) error {
	if a.Empty() {
		t.Remove(uid)
		return nil
	}
	return t.Set(uid, allocation.Resources{ContainerResources: a.Containers, PodLevelResources: a.Pod})
}

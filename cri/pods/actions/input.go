package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

// Input is all that the next actions of a pod depend on. Nothing of it is
// changed.
type Input struct {
	// Pod is the desired pod, with the resources that the node has allocated to
	// it. Required.
	Pod *v1.Pod
	// Status is what the runtime has of it, observed after the last action on
	// the pod has ended. Required; a pod of which the runtime has nothing is an
	// empty PodStatus.
	Status *observed.Pod
	// Probes are the results of the pod's probes (probe.Manager.Results); a missing
	// one is unknown and never restarts anything. A sidecar with a startup probe
	// counts as started once that has succeeded. After a restart of the agent, fill
	// it from what was published (ContainerStatus.Started) until the probe has run
	// again.
	Probes probe.Results
	// Actuated are the resources that the runtime was last told to apply. nil
	// means that containers are never resized in place.
	Actuated *Actuated
	// RestartAll asks for a restart of all containers in their sandbox
	// (KEP-5532); RestartAllTriggered and status.Compute tell when. It has no
	// effect once no instance of a container is left: they are just started.
	RestartAll bool
}

// Actuated are the resources that the runtime was last told for a pod, as its spec
// gave them then. In-place resize (KEP-1287) compares the spec with them: what a
// runtime reports has gone through rounding and lacks requests.
type Actuated struct {
	// Containers are the resources of regular and init containers by name. A
	// container without a record counts as having none: its values are sent
	// again. It is not restarted for lack of a record, only if the runtime
	// reports other values than the spec has.
	Containers map[string]v1.ResourceRequirements `json:"containers,omitempty"`
	// Pod are the pod-level resources (KEP-2837); nil when nothing was recorded.
	Pod *v1.ResourceRequirements `json:"pod,omitempty"`
}

// Empty tells that nothing was recorded.
func (a Actuated) Empty() bool { return a.Pod == nil && len(a.Containers) == 0 }

package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

// Input is the input of Compute, which does not change it.
type Input struct {
	// Pod is the desired pod, with the resources that the node has allocated to it. Required.
	Pod *v1.Pod
	// Status is the pod's state in the runtime, observed after the end of the last action on the
	// pod. Required. For a pod without any container or sandbox it is an empty observed.Pod.
	Status *observed.Pod
	// Probes are the results of the pod's probes (probe.Manager.Results). A missing result is
	// unknown and never causes a restart. A sidecar with a startup probe has started once the
	// probe has succeeded; after a restart of the agent, fill it from the published status
	// (ContainerStatus.Started) until the probe has run again.
	Probes probe.Results
	// Actuated are the resources last applied in the runtime. Nil disables in-place resizes.
	Actuated *Actuated
	// RestartAll requests a restart of all containers in their sandbox (KEP-5532);
	// RestartAllTriggered and status.Compute report when. It has no effect once no instance is
	// left: the containers then just start.
	RestartAll bool
}

// Actuated are the resources last applied to a pod in the runtime, as its spec contained them.
// In-place resize (KEP-1287) compares the spec with them, because the values that a runtime
// reports are rounded and lack requests.
type Actuated struct {
	// Containers are the resources of regular and init containers by name. For a container
	// without a record the values are applied again. It restarts only if the runtime reports
	// values that differ from the spec.
	Containers map[string]v1.ResourceRequirements `json:"containers,omitempty"`
	// Pod are the pod-level resources (KEP-2837), or nil without a record.
	Pod *v1.ResourceRequirements `json:"pod,omitempty"`
}

// Empty reports whether there is no record.
func (a Actuated) Empty() bool { return a.Pod == nil && len(a.Containers) == 0 }

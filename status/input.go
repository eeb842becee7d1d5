package status

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// Reasons of containers in the statuses of this package and package writer.
const (
	// ReasonContainerCreating is the reason of a container that waits for its first start.
	ReasonContainerCreating = "ContainerCreating"
	// ReasonPodInitializing is the same reason in a pod with init containers.
	ReasonPodInitializing = "PodInitializing"
	// ReasonCompleted is the reason of an unseen init container that must have succeeded, because
	// a regular container ran.
	ReasonCompleted = "Completed"
	// ReasonContainerStatusUnknown is the reason of a container with an unseen end. Its exit code
	// is 137.
	ReasonContainerStatusUnknown = podstatus.ReasonContainerStatusUnknown
	// ReasonRestartingAllContainers is the reason of a container that was removed because all
	// containers of the pod restart.
	ReasonRestartingAllContainers = podstatus.ReasonRestartingAllContainers
	// ReasonDeadlineExceeded is the reason of a pod that exceeded its active deadline.
	ReasonDeadlineExceeded = "DeadlineExceeded"
)

// Input is the input of Compute, which does not change it. Only Pod is required.
type Input struct {
	// Pod is the pod to report on, as it should run on this node.
	Pod *v1.Pod
	// Observed is the pod's state in the runtime. nil means unknown: containers, phase and
	// addresses stay as in the previous status.
	Observed *observed.Pod
	// Previous is the last computed status. Default: API.
	Previous *v1.PodStatus
	// API is the status in the API server. Default: Pod.Status. A terminal phase in it is final,
	// and it provides the conditions of other components.
	API *v1.PodStatus
	// Probes are the results of the pod's probes (probe.Manager.Results). Only results of the
	// newest instance of a container count. A running container without a startup probe is started;
	// a started one without a readiness probe is ready. nil means that no container is probed. The
	// missing result of a probe is unknown and never counts as success: an instance keeps its
	// previous state, and a new instance has not passed.
	Probes probe.Results
	// StartFailures has, by container name, the reason of the last failed or delayed start. It
	// becomes the waiting reason.
	StartFailures map[string]podwright.Reason
	// Allocated has the allocated resources by container name. Default for a missing container:
	// the resources of its spec.
	Allocated map[string]v1.ResourceRequirements
	// Applied are the pod-level resources (KEP-2837) that were applied last. Default: the
	// pod-level resources of the spec. A pod without pod-level resources ignores Applied.
	Applied *v1.ResourceRequirements
	// HostIPs are the node's addresses, the primary one first, at most one per family. If empty,
	// the reported addresses stay.
	HostIPs []string
	// Fail makes the pod Failed with this reason, such as ReasonDeadlineExceeded, unless the pod
	// has already ended. Optional.
	Fail *podwright.Reason
	// Override changes the status before the conditions are computed, such as the status function
	// of a kill. Optional. Its argument has containers, phase, the conditions of other components
	// and DisruptionTarget. If the phase was final before, changes of the phase, its reason and
	// DisruptionTarget have no effect. A pod whose containers exited with 0 before the stop stays
	// Succeeded; so does, once Terminal is set, a pod of restart policy Always whose containers
	// exited with 0 after it. It may be called several times and must be pure: the phase Failed of
	// the previous status is not final if Override sets it with the same reason and message.
	Override func(*v1.PodStatus)
	// Terminal is true if every container has stopped for good. The phase can then become final
	// under every restart policy. With a final phase, containers without a record of their end get
	// exit code 137.
	Terminal bool
	// RecursiveReadOnly is true if the pod's runtime handler supports recursive read-only mounts.
	RecursiveReadOnly bool
	// StopSignals adds the containers' stop signals to the status.
	StopSignals bool
	// Now is the time of changed conditions, and the start time of a new pod. Default:
	// time.Now().
	Now time.Time
}

// Result is a computed status.
type Result struct {
	// Status is the pod's status. It shares no memory with the Input.
	Status v1.PodStatus
	// RestartAll is true while the restart of all containers (KEP-5532) is in progress.
	RestartAll bool
	// ProbeNow lists, sorted, the containers whose readiness probe should run at once: they run
	// and have started, and have no successful result.
	ProbeNow []string
	// HostIPFamilyChanged is true if the node's primary address has another IP family than the
	// last reported host IP.
	HostIPFamilyChanged bool
}

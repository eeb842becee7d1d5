package status

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// Reasons of containers in the statuses of this package and package writer.
const (
	// ReasonContainerCreating is the reason of a container that waits for its
	// first start.
	ReasonContainerCreating = "ContainerCreating"
	// ReasonPodInitializing is the same in a pod with init containers.
	ReasonPodInitializing = "PodInitializing"
	// ReasonCompleted is the reason of an init container that must have
	// succeeded, since what comes after it was started.
	ReasonCompleted = "Completed"
	// ReasonContainerStatusUnknown goes with exit code 137 of a container whose
	// real one nobody saw.
	ReasonContainerStatusUnknown = podstatus.ReasonContainerStatusUnknown
	// ReasonRestartingAllContainers is the reason of a container that was
	// removed because all containers of the pod start anew.
	ReasonRestartingAllContainers = podstatus.ReasonRestartingAllContainers
	// ReasonDeadlineExceeded is the pod's reason when its active deadline passed.
	ReasonDeadlineExceeded = "DeadlineExceeded"
)

// Reason says why something is as it is: one CamelCase word, and a text for
// people.
type Reason struct {
	Reason, Message string
}

// Reasons turns reasons of another package, such as those of the failed starts of
// package cri/pods, into Input.StartFailures.
func Reasons[T ~struct{ Reason, Message string }](by map[string]T) map[string]Reason {
	out := make(map[string]Reason, len(by))
	for name, r := range by {
		out[name] = Reason(r)
	}
	return out
}

// Input is the input of Compute, which does not change it. Only Pod is required.
type Input struct {
	// Pod is the pod to report on, as it is to run on this node.
	Pod *v1.Pod
	// Observed is what the runtime has of the pod. nil means that nobody has
	// looked: containers, phase and addresses stay as they were.
	Observed *observed.Pod
	// Previous is the status computed last, nil when there is none; then API
	// takes its place.
	Previous *v1.PodStatus
	// API is the status that the API server has; nil means Pod.Status. A
	// terminal phase in it is final, and the conditions of others are taken from
	// it.
	API *v1.PodStatus
	// Probes holds the results of the pod's probes (probe.Manager.Results). Those of
	// other instances than the newest of a container do not count. nil means that
	// nobody probes: what runs is started and ready. Otherwise a missing result is
	// unknown. It is never taken for success: what the previous status says of the
	// same instance stays, and a new instance has not passed.
	Probes probe.Results
	// StartFailures tells, by name, why the last attempt to start a container
	// failed or is held back. It becomes the waiting reason.
	StartFailures map[string]Reason
	// Allocated holds the resources that the node has granted, by container
	// name; a missing container was granted what its spec asks for.
	Allocated map[string]v1.ResourceRequirements
	// Applied are the resources of the pod as a whole (KEP-2837) that were applied to it
	// last; nil means those that its spec has. A pod without them has none.
	Applied *v1.ResourceRequirements
	// HostIPs are the node's addresses, the primary one first, at most one per
	// family. Empty means unknown: what was reported stays.
	HostIPs []string
	// Fail, when not nil, makes the pod Failed for this reason unless it has
	// already ended, such as ReasonDeadlineExceeded.
	Fail *Reason
	// Override, when not nil, changes the status before the conditions are
	// decided, such as the status function of a kill; a phase that was final
	// before stays, with its reason, and DisruptionTarget with it. It sees
	// containers, phase, the conditions of others and DisruptionTarget. It may be
	// called twice and must be pure.
	Override func(*v1.PodStatus)
	// Terminal tells that every container has stopped for good, so that the
	// phase can be final whatever the restart policy.
	Terminal bool
	// RecursiveReadOnly tells that the pod's runtime handler can make mounts
	// recursively read-only.
	RecursiveReadOnly bool
	// StopSignals makes the containers' stop signals part of the status.
	StopSignals bool
	// Now is stamped on conditions that change, and on a pod seen first. Zero means
	// time.Now().
	Now time.Time
}

// Result is a computed status.
type Result struct {
	// Status is the pod's status. It shares no memory with the Input.
	Status v1.PodStatus
	// RestartAll tells that all containers of the pod are to be reset and
	// started anew (KEP-5532) and that this is not finished.
	RestartAll bool
	// ProbeNow names the containers, sorted, whose readiness probe should run at
	// once instead of at its next turn: they run and have started, and nothing
	// says that they are ready.
	ProbeNow []string
	// HostIPFamilyChanged tells that the node's primary address is of another
	// family than the host IP reported before.
	HostIPFamilyChanged bool
}

package status

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// Finalize completes the status of a pod whose containers have all stopped for good
// and whose resources are released: containers without a record of their end
// get exit code 137 and reason ContainerStatusUnknown, and a pod of the API
// server that has no terminal phase becomes Failed. Containers that never had
// their turn stay waiting. In what has ended nothing is ready, resized or
// restarting.
//
// Whether the pod had been initialised is judged by pod.Status, the status that
// the API server has. s is not changed.
func Finalize(pod *v1.Pod, s v1.PodStatus, now time.Time) v1.PodStatus {
	s = *s.DeepCopy()
	if wasInitialized(pod) {
		endUnseen(s.ContainerStatuses)
	}
	endUnseen(begun(s.InitContainerStatuses))
	if !podfacts.IsStatic(pod) && !podfacts.IsTerminalPhase(s.Phase) {
		s.Phase = v1.PodFailed
	}
	if podfacts.IsTerminalPhase(s.Phase) {
		s = WithoutResizePending(WithoutResizeInProgress(s))
		if podfacts.Condition(s.Conditions, v1.AllContainersRestarting) != nil {
			s = withCondition(pod, s, now, newCondition(v1.AllContainersRestarting, ended(s.Phase)))
		}
	}
	return WithReadiness(pod, s, now)
}

// Reject is the status of a pod that the node refuses to run: Failed for a
// reason, with no containers and no conditions.
func Reject(pod *v1.Pod, reason, message string) v1.PodStatus {
	return v1.PodStatus{
		Phase: v1.PodFailed, Reason: reason, Message: "Pod was rejected: " + message,
		QOSClass: podfacts.QOSClass(pod), ObservedGeneration: pod.Generation,
	}
}

// wasInitialized tells, from the API server's status, that regular containers
// had their turn.
func wasInitialized(pod *v1.Pod) bool {
	inits := pod.Spec.InitContainers
	if len(inits) == 0 {
		return true
	}
	for i := range pod.Status.ContainerStatuses {
		if hasBegun(&pod.Status.ContainerStatuses[i]) {
			return true
		}
	}
	last := &inits[len(inits)-1]
	status := find(pod.Status.InitContainerStatuses, last.Name)
	switch {
	case status == nil:
		return false
	case podfacts.IsSidecar(last):
		return status.State.Running != nil && isTrue(status.Started)
	default:
		ended := termination(status)
		return ended != nil && ended.ExitCode == 0
	}
}

// begun cuts off the init containers at the end that never started. The first
// one always had its turn.
func begun(statuses []v1.ContainerStatus) []v1.ContainerStatus {
	n := len(statuses)
	for n > 1 && !hasBegun(&statuses[n-1]) {
		n--
	}
	return statuses[:n]
}

// hasBegun tells that a container ever left the waiting state.
func hasBegun(status *v1.ContainerStatus) bool {
	return status.State.Running != nil || status.State.Terminated != nil || status.LastTerminationState.Terminated != nil
}

func endUnseen(statuses []v1.ContainerStatus) {
	for i := range statuses {
		status := &statuses[i]
		if status.State.Terminated != nil {
			continue
		}
		started := false
		status.State = unseenEnd(ReasonContainerStatusUnknown, "The container could not be located when the pod was terminated")
		status.Ready, status.Started = false, &started
	}
}

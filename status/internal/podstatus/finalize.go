package podstatus

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
		s = Without(Without(s, v1.PodResizeInProgress), v1.PodResizePending)
		if podfacts.Condition(s.Conditions, v1.AllContainersRestarting) != nil {
			s = WithCondition(pod, s, now, NewCondition(v1.AllContainersRestarting, Ended(s.Phase)))
		}
	}
	return WithReadiness(pod, s, now)
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
	status := Find(pod.Status.InitContainerStatuses, last.Name)
	switch {
	case status == nil:
		return false
	case podfacts.IsSidecar(last):
		return status.State.Running != nil && IsTrue(status.Started)
	default:
		ended := Termination(status)
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
		status.State = UnseenEnd(ReasonContainerStatusUnknown, "The container could not be located when the pod was terminated")
		status.Ready, status.Started = false, &started
	}
}

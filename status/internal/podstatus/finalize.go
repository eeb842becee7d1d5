package podstatus

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// Finalize completes the status of a pod after all its containers have stopped for good and its
// resources are released. Containers without a record of their end get exit code 137 and reason
// ContainerStatusUnknown. A pod of the API server without a terminal phase becomes Failed.
// Containers whose turn never came stay waiting. An ended pod is neither ready nor resized nor
// restarting.
//
// pod.Status, the status in the API server, decides whether the pod had been initialised. s is
// not changed.
func Finalize(pod *v1.Pod, s v1.PodStatus, now time.Time) v1.PodStatus {
	s = *s.DeepCopy()
	EndContainers(pod, &pod.Status, &s)
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

// EndContainers gives exit code 137 and reason ContainerStatusUnknown to the containers in s that
// may have run and have no record of their end. api is the status in the API server.
func EndContainers(pod *v1.Pod, api, s *v1.PodStatus) {
	if wasInitialized(pod, api) {
		endUnseen(s.ContainerStatuses)
	}
	endUnseen(withoutUnstarted(s.InitContainerStatuses))
}

// wasInitialized reports whether regular containers could start, according to the API server's
// status.
func wasInitialized(pod *v1.Pod, api *v1.PodStatus) bool {
	inits := pod.Spec.InitContainers
	if len(inits) == 0 {
		return true
	}
	for i := range api.ContainerStatuses {
		if hasStarted(&api.ContainerStatuses[i]) {
			return true
		}
	}
	last := &inits[len(inits)-1]
	status := Find(api.InitContainerStatuses, last.Name)
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

// withoutUnstarted omits the trailing init containers that never started. The first init container
// always counts as started.
func withoutUnstarted(statuses []v1.ContainerStatus) []v1.ContainerStatus {
	n := len(statuses)
	for n > 1 && !hasStarted(&statuses[n-1]) {
		n--
	}
	return statuses[:n]
}

// hasStarted reports whether a container ever left the waiting state.
func hasStarted(status *v1.ContainerStatus) bool {
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

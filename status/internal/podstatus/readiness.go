package podstatus

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// SetReadiness sets ContainersReady, and Ready, which depends on it. old are the previous
// conditions. Ready comes last, because a readiness gate may name any condition.
func SetReadiness(pod *v1.Pod, s *v1.PodStatus, now time.Time, old []v1.PodCondition) {
	containers := ContainersReady(pod, s)
	SetCondition(s, pod.Generation, now, NewCondition(v1.ContainersReady, containers), podfacts.Condition(old, v1.ContainersReady))
	SetCondition(s, pod.Generation, now, NewCondition(v1.PodReady, podReady(pod, s, containers)), podfacts.Condition(old, v1.PodReady))
}

// Initialized returns whether all init containers have succeeded at least once.
func Initialized(pod *v1.Pod, s, old *v1.PodStatus) Verdict {
	if len(pod.Spec.InitContainers) > 0 && s.InitContainerStatuses == nil && s.ContainerStatuses == nil {
		return Verdict{Reason: reasonUnknownContainerStatuses}
	}
	var missing, incomplete []string
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		status := Find(s.InitContainerStatuses, c.Name)
		switch {
		case status == nil:
			missing = append(missing, c.Name)
		case podfacts.IsSidecar(c) && !IsTrue(status.Started), !podfacts.IsSidecar(c) && !status.Ready:
			incomplete = append(incomplete, c.Name)
		}
	}
	if s.Phase == v1.PodSucceeded && len(missing) == 0 {
		return Verdict{OK: true, Reason: reasonPodCompleted}
	}
	for i := range s.ContainerStatuses {
		if state := &s.ContainerStatuses[i].State; state.Running != nil || state.Terminated != nil {
			return Verdict{OK: true}
		}
	}
	if len(missing)+len(incomplete) == 0 {
		return Verdict{OK: true}
	}
	if c := podfacts.Condition(old.Conditions, v1.PodInitialized); c != nil && c.Status == v1.ConditionTrue {
		return Verdict{OK: true}
	}
	return Verdict{Reason: reasonContainersNotInitialized, Message: names(missing, "incomplete", incomplete)}
}

// ContainersReady returns whether every regular container and sidecar is ready.
func ContainersReady(pod *v1.Pod, s *v1.PodStatus) Verdict {
	if s.InitContainerStatuses == nil && s.ContainerStatuses == nil {
		return Verdict{Reason: reasonUnknownContainerStatuses}
	}
	var missing, unready []string
	check := func(name string, statuses []v1.ContainerStatus) {
		if status := Find(statuses, name); status == nil {
			missing = append(missing, name)
		} else if !status.Ready {
			unready = append(unready, name)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podfacts.IsSidecar(c) {
			check(c.Name, s.InitContainerStatuses)
		}
	}
	for i := range pod.Spec.Containers {
		check(pod.Spec.Containers[i].Name, s.ContainerStatuses)
	}
	switch {
	case s.Phase == v1.PodSucceeded && len(missing) == 0:
		return Verdict{Reason: reasonPodCompleted}
	case s.Phase == v1.PodFailed:
		return Verdict{Reason: reasonPodFailed}
	case len(missing)+len(unready) > 0:
		return Verdict{Reason: reasonContainersNotReady, Message: names(missing, "unready", unready)}
	default:
		return Verdict{OK: true}
	}
}

// podReady combines the readiness gates with ContainersReady. The gates' conditions must already
// be in the list.
func podReady(pod *v1.Pod, s *v1.PodStatus, containers Verdict) Verdict {
	if !containers.OK {
		return containers
	}
	if closed := podfacts.ClosedGates(pod, s.Conditions); closed != "" {
		return Verdict{Reason: reasonReadinessGatesNotReady, Message: closed}
	}
	return Verdict{OK: true}
}

func names(missing []string, state string, short []string) string {
	var parts []string
	if len(missing) > 0 {
		parts = append(parts, fmt.Sprintf("containers with unknown status: [%s]", strings.Join(missing, " ")))
	}
	if len(short) > 0 {
		parts = append(parts, fmt.Sprintf("containers with %s status: [%s]", state, strings.Join(short, " ")))
	}
	return strings.Join(parts, ", ")
}

package podstatus

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// WithContainerReady applies the result of a readiness probe, and its effect on the pod, at once.
// It returns false without a change: if no regular container or sidecar has this ID, if Ready
// already has this value, or if the probe succeeded but the container does not run or has not
// started yet.
func WithContainerReady(pod *v1.Pod, s v1.PodStatus, containerID string, ready bool, now time.Time) (v1.PodStatus, bool) {
	return withContainer(pod, s, containerID, now, func(_ *v1.Container, c *v1.ContainerStatus) bool {
		if c.Ready == ready || ready && (c.State.Running == nil || !IsTrue(c.Started)) {
			return false
		}
		c.Ready = ready
		return true
	})
}

// WithContainerStarted applies the result of a startup probe in the same way. A started container
// without a readiness probe becomes ready; a container that has not started is not ready.
func WithContainerStarted(pod *v1.Pod, s v1.PodStatus, containerID string, started bool, now time.Time) (v1.PodStatus, bool) {
	return withContainer(pod, s, containerID, now, func(spec *v1.Container, c *v1.ContainerStatus) bool {
		if c.Started != nil && *c.Started == started || started && c.State.Running == nil {
			return false
		}
		c.Started = &started
		c.Ready = started && (c.Ready || spec.ReadinessProbe == nil)
		return true
	})
}

// WithReadiness computes Ready and ContainersReady again, from the containers and the other
// conditions of the status.
func WithReadiness(pod *v1.Pod, s v1.PodStatus, now time.Time) v1.PodStatus {
	old := s.Conditions
	s.Conditions = slices.Clone(old)
	SetReadiness(pod, &s, now, old)
	return s
}

func withContainer(pod *v1.Pod, s v1.PodStatus, containerID string, now time.Time, change func(*v1.Container, *v1.ContainerStatus) bool) (v1.PodStatus, bool) {
	if containerID == "" {
		return s, false
	}
	for _, place := range []struct {
		spec     []v1.Container
		statuses *[]v1.ContainerStatus
	}{{pod.Spec.Containers, &s.ContainerStatuses}, {pod.Spec.InitContainers, &s.InitContainerStatuses}} {
		for i := range *place.statuses {
			if (*place.statuses)[i].ContainerID != containerID {
				continue
			}
			c := (*place.statuses)[i]
			at := slices.IndexFunc(place.spec, func(spec v1.Container) bool { return spec.Name == c.Name })
			init := place.statuses == &s.InitContainerStatuses
			if at < 0 || init && !podfacts.IsSidecar(&place.spec[at]) || !change(&place.spec[at], &c) {
				return s, false
			}
			*place.statuses = slices.Clone(*place.statuses)
			(*place.statuses)[i] = c
			return WithReadiness(pod, s, now), true
		}
	}
	return s, false
}

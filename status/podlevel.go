package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// podResources sets the pod-level resources of the status (KEP-5419): the allocated requests, and
// the actual resources from those applied to the pod and those reported for its containers.
func (b *builder) podResources(s *v1.PodStatus) {
	pod := *b.in.Pod
	pod.Spec.InitContainers = withResources(pod.Spec.InitContainers, b.allocated)
	pod.Spec.Containers = withResources(pod.Spec.Containers, b.allocated)
	s.AllocatedResources = podfacts.Requests(&pod)
	if pod.Spec.Resources != nil && b.in.Applied != nil {
		pod.Spec.Resources = b.in.Applied
	}
	pod.Spec.InitContainers = withResources(pod.Spec.InitContainers, resourcesIn(s.InitContainerStatuses))
	pod.Spec.Containers = withResources(pod.Spec.Containers, resourcesIn(s.ContainerStatuses))
	s.Resources = &v1.ResourceRequirements{
		Requests: podfacts.Requests(&pod),
		Limits:   podfacts.Limits(&pod),
	}
}

// withResources replaces the resources of containers by the results of the function. It copies the
// slice only on a change.
func withResources(containers []v1.Container, of func(*v1.Container) *v1.ResourceRequirements) []v1.Container {
	out := containers
	for i := range containers {
		r := of(&containers[i])
		if podstatus.SameRequirements(r, &containers[i].Resources) {
			continue
		}
		if &out[0] == &containers[0] {
			out = slices.Clone(containers)
		}
		out[i].Resources = *r
	}
	return out
}

func resourcesIn(statuses []v1.ContainerStatus) func(*v1.Container) *v1.ResourceRequirements {
	return func(c *v1.Container) *v1.ResourceRequirements {
		if s := podstatus.Find(statuses, c.Name); s != nil && s.Resources != nil {
			return s.Resources
		}
		return &c.Resources
	}
}

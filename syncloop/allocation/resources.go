package allocation

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resources are the resources of a pod's containers and its pod-level resources. The names of the
// fields are part of the file format.
type Resources struct {
	// ContainerResources are the resources of regular and init containers by name.
	ContainerResources map[string]v1.ResourceRequirements
	// PodLevelResources are the pod-level resources, or nil.
	PodLevelResources *v1.ResourceRequirements
}

// ResourcesOf returns a deep copy of the resources in a pod's spec.
func ResourcesOf(pod *v1.Pod) Resources {
	r := Resources{ContainerResources: map[string]v1.ResourceRequirements{}, PodLevelResources: pod.Spec.Resources.DeepCopy()}
	eachContainer(pod, func(c *v1.Container) { r.ContainerResources[c.Name] = *c.Resources.DeepCopy() })
	return r
}

// Apply returns the pod with resources r: the same object if the spec already has them, else a
// copy. Containers that r does not name keep their resources.
func (r Resources) Apply(pod *v1.Pod) *v1.Pod {
	if r.Describes(pod) {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Spec.Resources = r.PodLevelResources.DeepCopy()
	eachContainer(pod, func(c *v1.Container) {
		if own, ok := r.ContainerResources[c.Name]; ok {
			c.Resources = *own.DeepCopy()
		}
	})
	return pod
}

// Describes reports whether a pod's spec has the resources r.
func (r Resources) Describes(pod *v1.Pod) bool {
	same := (r.PodLevelResources == nil) == (pod.Spec.Resources == nil)
	if same && pod.Spec.Resources != nil {
		same = sameResources(*r.PodLevelResources, *pod.Spec.Resources)
	}
	eachContainer(pod, func(c *v1.Container) {
		if own, ok := r.ContainerResources[c.Name]; ok {
			same = same && sameResources(own, c.Resources)
		}
	})
	return same
}

// Equal reports whether r and other are equal.
func (r Resources) Equal(other Resources) bool {
	if (r.PodLevelResources == nil) != (other.PodLevelResources == nil) {
		return false
	}
	return (r.PodLevelResources == nil || sameResources(*r.PodLevelResources, *other.PodLevelResources)) &&
		maps.EqualFunc(r.ContainerResources, other.ContainerResources, sameResources)
}

func eachContainer(pod *v1.Pod, f func(*v1.Container)) {
	for i := range pod.Spec.InitContainers {
		f(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		f(&pod.Spec.Containers[i])
	}
}

func sameResources(a, b v1.ResourceRequirements) bool {
	return sameList(a.Requests, b.Requests) && sameList(a.Limits, b.Limits)
}

func sameList(a, b v1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

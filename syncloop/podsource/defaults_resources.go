package podsource

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podfacts"
)

func roundUp(list v1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}

// defaultPodResources completes the requests of a pod with pod-level resources (KEP-2837). The
// containers already have their defaults.
func defaultPodResources(spec *v1.PodSpec) {
	r := spec.Resources
	roundUp(r.Limits)
	roundUp(r.Requests)
	if len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	containers := &v1.Pod{Spec: v1.PodSpec{InitContainers: spec.InitContainers, Containers: spec.Containers}}
	defaults := v1.ResourceList{}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if quantity, ok := podfacts.Request(containers, name); ok {
			defaults[name] = quantity
		}
	}
	r.Requests = fillResources(fillResources(r.Requests, defaults), r.Limits)
}

func fillResources(list, defaults v1.ResourceList) v1.ResourceList {
	for name, quantity := range defaults {
		if _, ok := list[name]; ok {
			continue
		}
		if list == nil {
			list = v1.ResourceList{}
		}
		list[name] = quantity.DeepCopy()
	}
	return list
}

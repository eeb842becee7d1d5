package podsource

import (
	"maps"
	"strings"

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

// defaultPodResources completes the requests and the limits of huge pages of a pod with pod-level
// resources (KEP-2837). The containers already have their defaults.
func defaultPodResources(spec *v1.PodSpec) {
	r := spec.Resources
	roundUp(r.Limits)
	roundUp(r.Requests)
	if len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	containers := &v1.Pod{Spec: v1.PodSpec{InitContainers: spec.InitContainers, Containers: spec.Containers}}
	hugePages := podfacts.Limits(containers)
	maps.DeleteFunc(hugePages, func(name v1.ResourceName, _ resource.Quantity) bool {
		_, requested := r.Requests[name]
		return requested || !strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
	})
	r.Limits = fillResources(r.Limits, hugePages)
	if len(r.Limits) == 0 {
		return
	}
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

package podsource

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podwright/podwright/internal/podfacts"
)

// roundUp makes amounts multiples of a thousandth.
func roundUp(list v1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}

// defaultPodResources completes the requests of a pod that has resources of its
// own (KEP-2837). The containers have their defaults already.
func defaultPodResources(spec *v1.PodSpec) {
	r := spec.Resources
	roundUp(r.Limits)
	roundUp(r.Requests)
	if len(r.Limits) == 0 && len(r.Requests) == 0 {
		return
	}
	all := containerRequests(spec)
	defaults := v1.ResourceList{}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if quantity, ok := all[name]; ok {
			defaults[name] = quantity
		}
	}
	for _, list := range []v1.ResourceList{defaults, r.Limits} {
		for name, quantity := range list {
			if _, ok := r.Requests[name]; ok {
				continue
			}
			if r.Requests == nil {
				r.Requests = v1.ResourceList{}
			}
			r.Requests[name] = quantity.DeepCopy()
		}
	}
}

// containerRequests is what the containers of a pod need at a time: all regular
// ones with the sidecars, or an init container with the sidecars before it.
func containerRequests(spec *v1.PodSpec) v1.ResourceList {
	sidecars, most := v1.ResourceList{}, v1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if podfacts.IsSidecar(c) {
			addTo(sidecars, c.Resources.Requests)
			continue
		}
		during := sidecars.DeepCopy()
		addTo(during, c.Resources.Requests)
		raise(most, during)
	}
	for i := range spec.Containers {
		addTo(sidecars, spec.Containers[i].Resources.Requests)
	}
	raise(most, sidecars)
	return most
}

func addTo(sum, list v1.ResourceList) {
	for name, quantity := range list {
		total := sum[name]
		total.Add(quantity)
		sum[name] = total
	}
}

func raise(most, list v1.ResourceList) {
	for name, quantity := range list {
		if old, ok := most[name]; !ok || old.Cmp(quantity) < 0 {
			most[name] = quantity
		}
	}
}

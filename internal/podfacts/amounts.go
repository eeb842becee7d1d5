package podfacts

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
)

// Request is what a pod requests of one resource, with its overhead; false for nothing.
// It equals helper.PodRequests of component-helpers, which adds up all resources each time:
// too much for what is asked for every pod of a node at each pass.
func Request(pod *v1.Pod, name v1.ResourceName) (resource.Quantity, bool) {
	return requests.of(pod, name)
}

// Limit is the limit that a pod has of one resource, with its overhead; false for none. It
// equals helper.PodLimits.
func Limit(pod *v1.Pod, name v1.ResourceName) (resource.Quantity, bool) {
	return limits.of(pod, name)
}

// Requests are all that a pod requests, nil for nothing: as helper.PodRequests, with fewer
// allocations, since a status takes them at each sync.
func Requests(pod *v1.Pod) v1.ResourceList { return requests.all(pod) }

// Limits are all limits that a pod has, nil for none.
func Limits(pod *v1.Pod) v1.ResourceList { return limits.all(pod) }

// side is one of the two lists that resources are asked for in.
type side bool

const (
	requests side = false
	limits   side = true
)

func (s side) list(r *v1.ResourceRequirements) v1.ResourceList {
	if s == limits {
		return r.Limits
	}
	return r.Requests
}

// all asks once for each resource that any part of a pod names.
func (s side) all(pod *v1.Pod) (out v1.ResourceList) {
	add := func(list v1.ResourceList) {
		for name := range list {
			if _, known := out[name]; known {
				continue
			}
			if q, ok := s.of(pod, name); ok {
				if out == nil {
					out = v1.ResourceList{}
				}
				out[name] = q
			}
		}
	}
	if pod.Spec.Resources != nil {
		add(s.list(pod.Spec.Resources))
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			add(s.list(&containers[i].Resources))
		}
	}
	add(pod.Spec.Overhead)
	return out
}

// of adds the overhead: a request even of what nobody else asks for, but no limit where
// there is none.
func (s side) of(pod *v1.Pod, name v1.ResourceName) (resource.Quantity, bool) {
	out, ok := s.withoutOverhead(pod, name)
	if q, has := pod.Spec.Overhead[name]; has && (s == requests || !out.IsZero()) {
		out.Add(q)
		ok = true
	}
	return out, ok
}

// withoutOverhead is what the pod says itself, or else what its containers say that run side
// by side, or an init container beside the sidecars before it if that is more. Quantities are
// only added to a new one: one may have an amount that it shares with its copies.
func (s side) withoutOverhead(pod *v1.Pod, name v1.ResourceName) (out resource.Quantity, ok bool) {
	if own := pod.Spec.Resources; own != nil && helper.IsSupportedPodLevelResource(name) {
		if q, has := s.list(own)[name]; has {
			out.Add(q)
			return out, true
		}
	}
	for i := range pod.Spec.Containers {
		if q, has := s.list(&pod.Spec.Containers[i].Resources)[name]; has {
			out.Add(q)
			ok = true
		}
	}
	var sidecars, most resource.Quantity
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		q, has := s.list(&c.Resources)[name]
		if !has {
			continue
		}
		ok = true
		var together resource.Quantity
		together.Add(q)
		together.Add(sidecars)
		if IsSidecar(c) {
			out.Add(q)
			sidecars.Add(q)
		}
		if together.Cmp(most) > 0 {
			most = together
		}
	}
	if most.Cmp(out) > 0 {
		out = most
	}
	return out, ok
}

// Amount is a quantity as a number: thousandths of CPUs, and else units of the resource. Less
// than nothing is nothing, and what is too large to count is the largest number.
func Amount(name v1.ResourceName, q resource.Quantity) int64 {
	most, of := int64(math.MaxInt64), q.Value
	if name == v1.ResourceCPU {
		most, of = math.MaxInt64/1000, q.MilliValue
	}
	switch {
	case q.Sign() <= 0:
		return 0
	case q.CmpInt64(most) >= 0:
		return math.MaxInt64
	}
	return of()
}

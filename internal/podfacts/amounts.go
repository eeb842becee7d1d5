package podfacts

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
)

// Request returns a pod's request of one resource, including its overhead, or false without a
// request. It equals helper.PodRequests of component-helpers, which sums up all resources each
// time and is too slow for every pod of a node at each pass.
func Request(pod *v1.Pod, name v1.ResourceName) (resource.Quantity, bool) {
	return requests.of(pod, name)
}

// Limit returns a pod's limit of one resource, including its overhead, or false without a limit.
// It equals helper.PodLimits.
func Limit(pod *v1.Pod, name v1.ResourceName) (resource.Quantity, bool) {
	return limits.of(pod, name)
}

// Requests returns all requests of a pod, or nil. It equals helper.PodRequests with fewer
// allocations, because a status needs them at each sync.
func Requests(pod *v1.Pod) v1.ResourceList { return requests.all(pod) }

// Limits returns all limits of a pod, or nil.
func Limits(pod *v1.Pod) v1.ResourceList { return limits.all(pod) }

// side selects requests or limits.
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

// all returns the amounts of all resources in the pod.
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

// of returns the amount with the overhead. The overhead is a request even without other
// requests, but no limit without another limit.
func (s side) of(pod *v1.Pod, name v1.ResourceName) (resource.Quantity, bool) {
	out, ok := s.withoutOverhead(pod, name)
	if q, has := pod.Spec.Overhead[name]; has && (s == requests || !out.IsZero()) {
		out.Add(q)
		ok = true
	}
	return out, ok
}

// withoutOverhead returns the pod-level amount or else the amount of the containers: the larger
// of the sum of all parallel containers, and of each init container with the sidecars before it.
// It adds only to new quantities, because a quantity may share its amount with its copies.
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
	var sidecars, largest resource.Quantity
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		q, has := s.list(&c.Resources)[name]
		if !has {
			continue
		}
		ok = true
		var joint resource.Quantity
		joint.Add(q)
		joint.Add(sidecars)
		if IsSidecar(c) {
			out.Add(q)
			sidecars.Add(q)
		}
		if joint.Cmp(largest) > 0 {
			largest = joint
		}
	}
	if largest.Cmp(out) > 0 {
		out = largest
	}
	return out, ok
}

// Amount returns a quantity as a number: thousandths of CPUs, or units of other resources. A
// negative quantity is 0, and a quantity that is too large is math.MaxInt64.
func Amount(name v1.ResourceName, q resource.Quantity) int64 {
	largest, of := int64(math.MaxInt64), q.Value
	if name == v1.ResourceCPU {
		largest, of = math.MaxInt64/1000, q.MilliValue
	}
	switch {
	case q.Sign() <= 0:
		return 0
	case q.CmpInt64(largest) >= 0:
		return math.MaxInt64
	}
	return of()
}

package allocation

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Metrics are told what happens. Each may be nil.
type Metrics struct {
	// OnRequest is told of each amount of a container, or of a pod as a whole, that a pod
	// is to have more, less or only now: resource is "cpu" or "memory", requirement
	// "requests" or "limits", operation "add", "remove", "increase" or "decrease".
	OnRequest func(resource, requirement, operation string)
	// OnInfeasible is told of each resize that can never be granted, with Infeasible.Detail.
	OnInfeasible func(detail string)
	// OnDeferredAccepted is told of each resize that was granted after it has waited, with
	// what it was tried again for.
	OnDeferredAccepted func(trigger string)
}

// count tells what is asked for that was not before.
func (m *Metrics) count(before, now *v1.Pod) {
	from, to := Of(before), Of(now)
	for name, r := range to.ContainerResources {
		m.differences(from.ContainerResources[name], r)
	}
	var a, b v1.ResourceRequirements
	if from.PodLevelResources != nil {
		a = *from.PodLevelResources
	}
	if to.PodLevelResources != nil {
		b = *to.PodLevelResources
	}
	m.differences(a, b)
}

func (m *Metrics) differences(from, to v1.ResourceRequirements) {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		for _, of := range []struct {
			requirement string
			from, to    v1.ResourceList
		}{{"requests", from.Requests, to.Requests}, {"limits", from.Limits, to.Limits}} {
			if op := operation(of.from[name], of.to[name]); op != "" {
				m.OnRequest(string(name), of.requirement, op)
			}
		}
	}
}

func operation(from, to resource.Quantity) string {
	switch change := to.Cmp(from); {
	case change == 0:
		return ""
	case from.IsZero():
		return "add"
	case to.IsZero():
		return "remove"
	case change > 0:
		return "increase"
	default:
		return "decrease"
	}
}

package allocation

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Metrics are callbacks for metrics. Each is optional.
type Metrics struct {
	// OnRequest is called for each changed amount of a container or of the pod-level resources.
	// resource is "cpu" or "memory", requirement "requests" or "limits", operation "add",
	// "remove", "increase" or "decrease".
	OnRequest func(resource, requirement, operation string)
	// OnInfeasible is called for each infeasible resize, with Infeasible.Detail.
	OnInfeasible func(detail string)
	// OnDeferredAccepted is called for each resize that was granted after a deferral, with the
	// trigger of Retry.
	OnDeferredAccepted func(trigger string)
}

// count reports the changed amounts between two versions of a pod.
func (m *Metrics) count(before, now *v1.Pod) {
	from, to := ResourcesOf(before), ResourcesOf(now)
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

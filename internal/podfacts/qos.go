package podfacts

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// QOSClass returns the pod's quality-of-service class: the class in its status, or else the
// class of the cpu and memory of the pod-level resources, or of the regular and init containers.
// Ephemeral containers do not count.
func QOSClass(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	requests, limits := v1.ResourceList{}, v1.ResourceList{}
	limited := true
	for _, r := range qosResources(pod) {
		addPositive(requests, r.Requests)
		limited = addPositive(limits, r.Limits) == 2 && limited
	}
	switch {
	case len(requests) == 0 && len(limits) == 0:
		return v1.PodQOSBestEffort
	case limited && areRequested(limits, requests):
		return v1.PodQOSGuaranteed
	default:
		return v1.PodQOSBurstable
	}
}

func qosResources(pod *v1.Pod) []v1.ResourceRequirements {
	if r := pod.Spec.Resources; r != nil && (len(r.Requests) > 0 || len(r.Limits) > 0) {
		return []v1.ResourceRequirements{*r}
	}
	var out []v1.ResourceRequirements
	for i := range pod.Spec.Containers {
		out = append(out, pod.Spec.Containers[i].Resources)
	}
	for i := range pod.Spec.InitContainers {
		out = append(out, pod.Spec.InitContainers[i].Resources)
	}
	return out
}

// addPositive adds the positive cpu and memory of from to sum and returns the number of added
// resources.
func addPositive(sum, from v1.ResourceList) int {
	n := 0
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		q, ok := from[name]
		if !ok || q.Cmp(resource.Quantity{}) <= 0 {
			continue
		}
		n++
		total := sum[name]
		total.Add(q)
		sum[name] = total
	}
	return n
}

func areRequested(limits, requests v1.ResourceList) bool {
	for name, q := range limits {
		if q.Cmp(requests[name]) != 0 {
			return false
		}
	}
	return true
}

package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// ReadyIsStale tells whether the Ready condition that a pod has in its status says
// something else, or for another reason, than its readiness gates (KEP-580) and
// containers do: somebody has changed a gate, and the pod has to be synced.
func ReadyIsStale(pod *v1.Pod) bool {
	if len(pod.Spec.ReadinessGates) == 0 {
		return false
	}
	is := condition(pod.Status.Conditions, v1.PodReady)
	fresh := WithReadiness(pod, pod.Status, time.Time{})
	should := condition(fresh.Conditions, v1.PodReady)
	return is == nil || is.Status != should.Status || is.Message != should.Message
}

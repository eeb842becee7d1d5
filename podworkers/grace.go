package podworkers

import (
	v1 "k8s.io/api/core/v1"
)

// grace is a pod's effective grace period. Zero seconds mean that none was set;
// once set it is at least 1 and never grows.
type grace struct {
	seconds  int64
	fromSpec bool
}

// orphanGrace is what a pod without a spec gets.
var orphanGrace = grace{seconds: 1}

// effectiveGrace combines what is present (not what is non-zero): what counted
// so far, the API's deletion grace and the override of a kill. The smallest
// wins. Without any of them the spec's own value counts.
func effectiveGrace(current grace, pod *v1.Pod, override *int64) grace {
	result := current
	consider := func(seconds *int64) {
		if seconds == nil {
			return
		}
		value := max(*seconds, 1)
		if result.seconds == 0 || value < result.seconds {
			result.seconds = value
		}
		result.fromSpec = false
	}
	consider(pod.DeletionGracePeriodSeconds)
	consider(override)
	if result.seconds == 0 {
		result = grace{seconds: 1, fromSpec: true}
		if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
			result.seconds = max(*s, 1)
		}
	}
	return result
}

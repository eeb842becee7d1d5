package podworkers

import (
	v1 "k8s.io/api/core/v1"
)

// grace is a pod's effective grace period. Zero seconds mean unset. Once set, it is at least 1
// and never grows.
type grace struct {
	seconds  int64
	fromSpec bool
}

// orphanGrace is the grace period of a pod without a spec.
var orphanGrace = grace{seconds: 1}

// effectiveGrace returns the smallest of the values that are present (nil is absent, zero is
// not): the current grace period, the API's deletion grace period and the override of a kill.
// Without any of them it returns the value of the spec.
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

package status

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status/internal/podstatus"
)

// The functions of this file change one thing in a status that was computed
// before, between two calls of Compute. They leave the status that they are given
// as it is, and return one that shares the rest with it.

// WithReadyToStart says that the pod's sandbox is there, without waiting for what
// is pulled and started in it (condition PodReadyToStartContainers).
func WithReadyToStart(pod *v1.Pod, s v1.PodStatus, now time.Time) v1.PodStatus {
	return podstatus.WithCondition(pod, s, now, podstatus.NewCondition(v1.PodReadyToStartContainers, podstatus.Verdict{OK: true}))
}

// WithDisruption says that this node ends the pod, as by eviction, preemption or a
// shutdown of the node (condition DisruptionTarget, reason TerminationByKubelet,
// KEP-3329). Package writer writes it together with the terminal phase.
func WithDisruption(pod *v1.Pod, s v1.PodStatus, message string, now time.Time) v1.PodStatus {
	return podstatus.WithCondition(pod, s, now, podstatus.NewCondition(v1.DisruptionTarget, podstatus.Verdict{OK: true, Reason: v1.PodReasonTerminationByKubelet, Message: message}))
}

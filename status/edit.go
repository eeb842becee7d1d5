package status

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status/internal/podstatus"
)

// The functions of this file change one part of a computed status between two calls of Compute.
// They do not change their argument; the returned status shares the rest of its memory.

// WithReadyToStart returns s with the condition PodReadyToStartContainers set to True: the pod's
// sandbox exists. It need not wait for image pulls and container starts.
func WithReadyToStart(pod *v1.Pod, s v1.PodStatus, now time.Time) v1.PodStatus {
	return podstatus.WithCondition(pod, s, now, podstatus.NewCondition(v1.PodReadyToStartContainers, podstatus.Verdict{OK: true}))
}

// WithDisruption returns s with the condition DisruptionTarget (reason TerminationByKubelet,
// KEP-3329): the node ends the pod, by eviction, preemption or node shutdown. Package writer
// writes it together with the terminal phase.
func WithDisruption(pod *v1.Pod, s v1.PodStatus, message string, now time.Time) v1.PodStatus {
	return podstatus.WithCondition(pod, s, now, podstatus.NewCondition(v1.DisruptionTarget, podstatus.Verdict{OK: true, Reason: v1.PodReasonTerminationByKubelet, Message: message}))
}

package shutdown

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

const (
	// NotReady is why the node is not ready while it goes down, for its condition Ready.
	NotReady = "node is shutting down"
	// RejectedReason and RejectedMessage are the status of pods that came too late.
	RejectedReason  = "NodeShutdown"
	RejectedMessage = "Pod was rejected as the node is shutting down."
	// TerminatedReason and TerminatedMessage are the status of pods that were ended.
	TerminatedReason  = "Terminated"
	TerminatedMessage = "Pod was terminated in response to imminent node shutdown."
)

// Terminated makes status that of a pod which ended with its node: failed, unless it
// had succeeded, and disrupted. generation is the pod's metadata.generation. A condition
// that already says so keeps its time.
func Terminated(status *v1.PodStatus, generation int64, now time.Time) {
	if status.Phase != v1.PodSucceeded {
		status.Phase = v1.PodFailed
	}
	status.Reason, status.Message = TerminatedReason, TerminatedMessage
	podfacts.Disrupt(status, generation, TerminatedMessage, now)
}

package shutdown

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

const (
	// NotReady is the message of the node's Ready condition during a shutdown.
	NotReady = "node is shutting down"
	// ReasonRejected and rejectedMessage are the status of pods rejected during a shutdown.
	ReasonRejected  = "NodeShutdown"
	rejectedMessage = "Pod was rejected as the node is shutting down."
	// ReasonTerminated and terminatedMessage are the status of pods that the shutdown ended.
	ReasonTerminated  = "Terminated"
	terminatedMessage = "Pod was terminated in response to imminent node shutdown."
)

// Terminated sets the status of a pod that ended in a shutdown: failed unless it has succeeded,
// and disrupted. generation is the pod's metadata.generation. A condition that is already true
// keeps its time.
func Terminated(status *v1.PodStatus, generation int64, now time.Time) {
	if status.Phase != v1.PodSucceeded {
		status.Phase = v1.PodFailed
	}
	status.Reason, status.Message = ReasonTerminated, terminatedMessage
	podfacts.Disrupt(status, generation, terminatedMessage, now)
}

package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// Reject returns the status of a rejected pod: Failed, with a reason, without containers and
// conditions. Its message begins with "Pod was rejected: ".
func Reject(pod *v1.Pod, reason, message string) v1.PodStatus {
	return v1.PodStatus{
		Phase: v1.PodFailed, Reason: reason, Message: "Pod was rejected: " + message,
		QOSClass: podfacts.QOSClass(pod), ObservedGeneration: pod.Generation,
	}
}

package podfacts

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Disrupt sets the condition DisruptionTarget of a pod that the kubelet ends. generation is
// the pod's metadata.generation. A condition that is true keeps its transition time.
func Disrupt(status *v1.PodStatus, generation int64, message string, now time.Time) {
	c := v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, ObservedGeneration: generation,
		Reason: v1.PodReasonTerminationByKubelet, Message: message, LastTransitionTime: metav1.NewTime(now),
	}
	i := slices.IndexFunc(status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget })
	if i < 0 {
		status.Conditions = append(status.Conditions, c)
		return
	}
	if old := status.Conditions[i]; old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	status.Conditions = slices.Clone(status.Conditions)
	status.Conditions[i] = c
}

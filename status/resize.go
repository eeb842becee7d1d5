package status

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// The conditions about resizing a pod in place (KEP-1287) are decided by whoever
// admits and carries out the resize. Compute passes them on from the previous
// status, so that they survive an agent's restart, until the pod ends. There is no
// False: a condition is there or it is not. LastProbeTime is when it was last
// stated, and LastTransitionTime when its reason changed.

// WithResizePending says that the resize that generation asks for was not granted:
// v1.PodReasonInfeasible when it cannot be, else v1.PodReasonDeferred, which any
// other reason becomes.
func WithResizePending(s v1.PodStatus, generation int64, why Reason, now time.Time) v1.PodStatus {
	if why.Reason != v1.PodReasonInfeasible {
		why.Reason = v1.PodReasonDeferred
	}
	return withResize(s, v1.PodResizePending, generation, why, now)
}

// WithoutResizePending says that no resize waits to be granted.
func WithoutResizePending(s v1.PodStatus) v1.PodStatus {
	return podstatus.Without(s, v1.PodResizePending)
}

// WithResizeInProgress says that a granted resize is being carried out. why is
// empty, or v1.PodReasonError with what hinders it; an empty one keeps what was
// said before. generation is that of the pod whose resize this is; 0 keeps the one
// that is reported, as a later generation may wait for another resize to be
// granted.
func WithResizeInProgress(s v1.PodStatus, generation int64, why Reason, now time.Time) v1.PodStatus {
	if before := podfacts.Condition(s.Conditions, v1.PodResizeInProgress); before != nil {
		if why == (Reason{}) {
			why = Reason{Reason: before.Reason, Message: before.Message}
		}
		if generation == 0 {
			generation = before.ObservedGeneration
		}
	}
	if why.Reason != "" {
		why.Reason = v1.PodReasonError
	}
	return withResize(s, v1.PodResizeInProgress, generation, why, now)
}

// WithoutResizeInProgress says that the pod has what it was granted.
func WithoutResizeInProgress(s v1.PodStatus) v1.PodStatus {
	return podstatus.Without(s, v1.PodResizeInProgress)
}

func withResize(s v1.PodStatus, t v1.PodConditionType, generation int64, why Reason, now time.Time) v1.PodStatus {
	at := metav1.NewTime(now)
	c := v1.PodCondition{
		Type: t, Status: v1.ConditionTrue, Reason: why.Reason, Message: why.Message,
		ObservedGeneration: generation, LastProbeTime: at, LastTransitionTime: at,
	}
	if before := podfacts.Condition(s.Conditions, t); before != nil && before.Reason == c.Reason {
		c.LastTransitionTime = before.LastTransitionTime
	}
	s.Conditions = slices.Clone(s.Conditions)
	podstatus.Put(&s, c)
	return s
}

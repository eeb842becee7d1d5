package status

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// The component that admits and executes a resize in place (KEP-1287) decides its conditions.
// Compute passes them on from the previous status until the pod ends, so that they survive a
// restart of the agent. A condition is True or absent, never False. LastProbeTime is the time of
// the last call, LastTransitionTime the time of the last change of the reason.

// WithResizePending returns s with the condition PodResizePending: the resize of the given
// generation was not granted. The reason is v1.PodReasonInfeasible if it is impossible on this
// node. Every other reason becomes v1.PodReasonDeferred.
func WithResizePending(s v1.PodStatus, generation int64, why podwright.Reason, now time.Time) v1.PodStatus {
	if why.Reason != v1.PodReasonInfeasible {
		why.Reason = v1.PodReasonDeferred
	}
	return withResize(s, v1.PodResizePending, generation, why, now)
}

// WithoutResizePending returns s without the condition PodResizePending.
func WithoutResizePending(s v1.PodStatus) v1.PodStatus {
	return podstatus.Without(s, v1.PodResizePending)
}

// WithResizeInProgress returns s with the condition PodResizeInProgress: a granted resize is not
// yet complete. why is empty, or v1.PodReasonError with the obstacle; an empty why keeps the
// previous one. generation is the generation of the resize. 0 keeps the reported generation,
// because a later one may contain another resize that is not yet granted.
func WithResizeInProgress(s v1.PodStatus, generation int64, why podwright.Reason, now time.Time) v1.PodStatus {
	if before := podfacts.Condition(s.Conditions, v1.PodResizeInProgress); before != nil {
		if why == (podwright.Reason{}) {
			why = podwright.Reason{Reason: before.Reason, Message: before.Message}
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

// WithoutResizeInProgress returns s without the condition PodResizeInProgress.
func WithoutResizeInProgress(s v1.PodStatus) v1.PodStatus {
	return podstatus.Without(s, v1.PodResizeInProgress)
}

func withResize(s v1.PodStatus, t v1.PodConditionType, generation int64, why podwright.Reason, now time.Time) v1.PodStatus {
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

package podstatus

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

const (
	reasonUnknownContainerStatuses = "UnknownContainerStatuses"
	reasonPodCompleted             = "PodCompleted"
	reasonPodFailed                = "PodFailed"
	reasonContainersNotInitialized = "ContainersNotInitialized"
	reasonContainersNotReady       = "ContainersNotReady"
	reasonReadinessGatesNotReady   = "ReadinessGatesNotReady"
)

// Verdict is the content of a condition.
type Verdict struct {
	OK              bool
	Reason, Message string
}

// Owned reports whether only the node agent sets a condition.
func Owned(t v1.PodConditionType) bool {
	switch t {
	case v1.PodScheduled, v1.PodReady, v1.PodInitialized, v1.ContainersReady, v1.PodReadyToStartContainers,
		v1.PodResizePending, v1.PodResizeInProgress, v1.AllContainersRestarting:
		return true
	}
	return false
}

// Shared reports whether the node agent and other components set a condition.
func Shared(t v1.PodConditionType) bool { return t == v1.DisruptionTarget }

// Ended returns the content of a False condition in a pod with a terminal phase.
func Ended(phase v1.PodPhase) Verdict {
	if phase == v1.PodSucceeded {
		return Verdict{Reason: reasonPodCompleted}
	}
	return Verdict{Reason: reasonPodFailed}
}

func NewCondition(t v1.PodConditionType, v Verdict) v1.PodCondition {
	c := v1.PodCondition{Type: t, Status: v1.ConditionFalse, Reason: v.Reason, Message: v.Message}
	if v.OK {
		c.Status = v1.ConditionTrue
	}
	return c
}

// SetCondition adds or replaces a condition, by its type. Its transition time changes only
// with its status, and its generation never decreases.
func SetCondition(s *v1.PodStatus, generation int64, now time.Time, c v1.PodCondition, old *v1.PodCondition) {
	if old == nil {
		old = &v1.PodCondition{}
	}
	if c.Type != v1.AllContainersRestarting {
		c.ObservedGeneration = max(generation, old.ObservedGeneration)
	}
	c.LastTransitionTime = metav1.NewTime(now)
	if old.Status == c.Status && !old.LastTransitionTime.IsZero() {
		c.LastTransitionTime = old.LastTransitionTime
	}
	Put(s, c)
}

// WithCondition returns s with one condition of the node agent.
func WithCondition(pod *v1.Pod, s v1.PodStatus, now time.Time, c v1.PodCondition) v1.PodStatus {
	before := podfacts.Condition(s.Conditions, c.Type)
	s.Conditions = slices.Clone(s.Conditions)
	SetCondition(&s, pod.Generation, now, c, before)
	return s
}

// Put adds or replaces a condition, by its type. The caller must own the list.
func Put(s *v1.PodStatus, c v1.PodCondition) {
	if place := podfacts.Condition(s.Conditions, c.Type); place != nil {
		*place = c
		return
	}
	s.Conditions = append(s.Conditions, c)
}

func Without(s v1.PodStatus, t v1.PodConditionType) v1.PodStatus {
	if podfacts.Condition(s.Conditions, t) != nil {
		s.Conditions = slices.DeleteFunc(slices.Clone(s.Conditions), func(c v1.PodCondition) bool { return c.Type == t })
	}
	return s
}

package podfacts

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Condition returns the condition of a type, or nil.
func Condition(list []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

// ConditionTrue reports whether the condition of a type is true.
func ConditionTrue(list []v1.PodCondition, t v1.PodConditionType) bool {
	c := Condition(list, t)
	return c != nil && c.Status == v1.ConditionTrue
}

// ClosedGates describes the readiness gates (KEP-580) that keep a pod from being ready,
// according to the given conditions. It returns "" if all gates are open.
func ClosedGates(pod *v1.Pod, conditions []v1.PodCondition) string {
	var closed []string
	for _, gate := range pod.Spec.ReadinessGates {
		switch c := Condition(conditions, gate.ConditionType); {
		case c == nil:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != v1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, c.Status))
		}
	}
	return strings.Join(closed, ", ")
}

// ReadyIsStale reports whether a pod's Ready condition contradicts its readiness gates and
// ContainersReady, or has another reason. The condition of a gate has then changed, and the pod
// needs a sync.
func ReadyIsStale(pod *v1.Pod) bool {
	if len(pod.Spec.ReadinessGates) == 0 {
		return false
	}
	conditions := pod.Status.Conditions
	ready, containers := Condition(conditions, v1.PodReady), Condition(conditions, v1.ContainersReady)
	switch {
	case ready == nil:
		return true
	case containers == nil:
		return ready.Status == v1.ConditionTrue
	case containers.Status != v1.ConditionTrue:
		return ready.Status == v1.ConditionTrue || ready.Message != containers.Message
	}
	closed := ClosedGates(pod, conditions)
	return (ready.Status == v1.ConditionTrue) != (closed == "") || ready.Message != closed
}

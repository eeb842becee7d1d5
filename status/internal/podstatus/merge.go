package podstatus

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// Merge returns the status to write, from a wanted status and the status in the API server:
//
//   - Conditions, resource claims and the nominated node of other components stay as in the API
//     server, so that concurrent additions and removals survive.
//   - A terminal phase is written only once no container can run any longer. Until then phase,
//     reason and message stay.
//   - A terminal phase in the API server stays, except in a mirror pod: a static pod can restart.
//   - DisruptionTarget is written together with the change to a terminal phase (KEP-3329), and at
//     no other time.
//   - Ready and ContainersReady are not True in a pod that has ended.
//
// fetched is the API server's object, for a static pod its mirror pod. mayStillRun is true if
// containers may still run or use resources. Merge changes neither fetched nor wanted; the result
// shares memory with both. If no write is necessary, the result is Equal to fetched.Status.
func Merge(fetched *v1.Pod, wanted *v1.PodStatus, mayStillRun bool, now time.Time) v1.PodStatus {
	there, out := &fetched.Status, *wanted
	ended := podfacts.IsTerminalPhase(there.Phase)
	ending := !ended && podfacts.IsTerminalPhase(wanted.Phase)
	stays := ended && !podfacts.IsTerminalPhase(wanted.Phase) && !podfacts.IsMirror(fetched)
	if ending && mayStillRun || stays {
		out.Phase, out.Reason, out.Message = there.Phase, there.Reason, there.Message
	}
	out.ObservedGeneration = max(wanted.ObservedGeneration, there.ObservedGeneration)
	out.NominatedNodeName = there.NominatedNodeName
	out.ResourceClaimStatuses = there.ResourceClaimStatuses
	out.ExtendedResourceClaimStatus = there.ExtendedResourceClaimStatus
	out.NodeAllocatableResourceClaimStatuses = there.NodeAllocatableResourceClaimStatuses
	out.Conditions = mergeConditions(there.Conditions, wanted.Conditions)
	if disrupted := podfacts.Condition(wanted.Conditions, v1.DisruptionTarget); disrupted != nil && ending && !mayStillRun {
		setMerged(&out, *disrupted, there, now)
	}
	if podfacts.IsTerminalPhase(out.Phase) {
		notReady(&out, there, now)
	}
	return out
}

// mergeConditions keeps the order of the existing list.
func mergeConditions(there, wanted []v1.PodCondition) []v1.PodCondition {
	out := make([]v1.PodCondition, 0, len(there)+len(wanted))
	for _, c := range there {
		if !Owned(c.Type) {
			out = append(out, c)
		} else if ours := podfacts.Condition(wanted, c.Type); ours != nil && podfacts.Condition(out, c.Type) == nil {
			out = append(out, *ours)
		}
	}
	for _, c := range wanted {
		if Owned(c.Type) && podfacts.Condition(out, c.Type) == nil {
			out = append(out, c)
		}
	}
	return out
}

func notReady(s, there *v1.PodStatus, now time.Time) {
	for _, t := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} {
		if c := podfacts.Condition(s.Conditions, t); c != nil && c.Status == v1.ConditionTrue {
			changed := NewCondition(t, Ended(s.Phase))
			changed.ObservedGeneration = c.ObservedGeneration
			setMerged(s, changed, there, now)
		}
	}
}

// setMerged puts a condition into s, whose list the caller must own. Its transition time is now,
// unless the API server already has the condition with this status.
func setMerged(s *v1.PodStatus, c v1.PodCondition, there *v1.PodStatus, now time.Time) {
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	if before := podfacts.Condition(there.Conditions, c.Type); before != nil && before.Status == c.Status {
		c.LastTransitionTime = before.LastTransitionTime
	}
	Put(s, c)
}

package podstatus

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// Merge is what is to be written of a wanted status over the one that the API
// server has:
//
//   - the conditions, resource claims and nominated node of others as they are
//     there, so that what was added meanwhile survives and what is gone stays so;
//   - a terminal phase only once no container can run any more: until then
//     phase, reason and message stay;
//   - a phase that is terminal there stays, except in a mirror pod: a static pod
//     can begin anew;
//   - DisruptionTarget together with the step into a terminal phase (KEP-3329),
//     and at no other time;
//   - Ready and ContainersReady not True in a pod that has ended.
//
// fetched is the API server's object, the mirror of a static pod; mayStillRun
// tells that containers may still run, or hold resources. Neither fetched nor
// wanted is changed, and the result shares memory with both. Where nothing is to
// be written, the result is Equal to fetched.Status.
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

// mergeConditions keeps the order of the list that is there.
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

// notReady lets nothing be ready in a pod that has ended.
func notReady(s, there *v1.PodStatus, now time.Time) {
	for _, t := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} {
		if c := podfacts.Condition(s.Conditions, t); c != nil && c.Status == v1.ConditionTrue {
			changed := NewCondition(t, Ended(s.Phase))
			changed.ObservedGeneration = c.ObservedGeneration
			setMerged(s, changed, there, now)
		}
	}
}

// setMerged puts a condition into a list that is the caller's own. Its transition
// is now, unless what is there has made it already.
func setMerged(s *v1.PodStatus, c v1.PodCondition, there *v1.PodStatus, now time.Time) {
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	if before := podfacts.Condition(there.Conditions, c.Type); before != nil && before.Status == c.Status {
		c.LastTransitionTime = before.LastTransitionTime
	}
	Put(s, c)
}

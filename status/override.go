package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// override applies Input.Override. After an end that was reported before, it changes neither the
// phase nor the reason.
func (b *builder) override(s *v1.PodStatus) {
	if b.in.Override == nil {
		return
	}
	phase, reason, message := s.Phase, s.Reason, s.Message
	b.in.Override(s)
	switch {
	case b.ended():
		s.Phase, s.Reason, s.Message = phase, reason, message
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c v1.PodCondition) bool { return podstatus.Shared(c.Type) })
		b.copyCondition(s, v1.DisruptionTarget)
	case phase == v1.PodSucceeded && (s.Phase != phase || b.in.Terminal):
		if b.keepsSuccess() {
			s.Phase, s.Reason, s.Message = phase, "", ""
		} else {
			s.Phase = v1.PodFailed
		}
	}
}

// keepsSuccess reports whether a pod whose containers exited with 0 has succeeded although the node
// ends it. It has if they exited before the stop, and if the pod never completes by itself: exit
// code 0 is then its answer to the stop. Under another restart policy a stopped container may have
// exited with 0 before its work was complete, and an owner such as a Job would count the work as
// done.
func (b *builder) keepsSuccess() bool {
	policy := b.in.Pod.Spec.RestartPolicy
	return !b.in.Terminal && !b.overridden || policy == v1.RestartPolicyAlways || policy == ""
}

// failedByOverride reports whether the previous status is Failed because of Override: the node ends
// the pod, and its containers had not stopped yet. Such a phase is not final.
func (b *builder) failedByOverride() bool {
	if b.in.Override == nil || b.old.Phase != v1.PodFailed || podfacts.IsTerminalPhase(b.api.Phase) {
		return false
	}
	s := v1.PodStatus{Phase: v1.PodRunning}
	b.in.Override(&s)
	return s.Phase == v1.PodFailed && s.Reason == b.old.Reason && s.Message == b.old.Message
}

// ended reports whether the end of the pod was reported before.
func (b *builder) ended() bool {
	return podfacts.IsTerminalPhase(b.api.Phase) || podfacts.IsTerminalPhase(b.old.Phase) && !b.overridden
}

// keepLast keeps the last state of containers whose end was unseen in the previous status too. The
// unseen end belongs to the same instance.
func keepLast(statuses, old []v1.ContainerStatus) {
	for i := range statuses {
		s := &statuses[i]
		before := podstatus.Find(old, s.Name)
		if before == nil || before.State.Terminated == nil || s.State.Terminated == nil || s.State.Terminated.Reason != ReasonContainerStatusUnknown {
			continue
		}
		if *before.State.Terminated == *s.State.Terminated && before.RestartCount == s.RestartCount {
			s.LastTerminationState = *before.LastTerminationState.DeepCopy()
		}
	}
}

package podsyncer

import (
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status"
)

// publishResize publishes the outcome of a resize. A failed resize stays in progress, with reason
// Error, until one succeeds or none is needed. A sync that did not reach the resize changes
// nothing.
func (s *Syncer) publishResize(pod *v1.Pod, result *pods.Result) {
	i := slices.IndexFunc(result.Entries, func(e pods.Entry) bool { return e.Action == pods.ActionResizePodInPlace })
	switch {
	case i >= 0 && result.Entries[i].Err != nil:
		s.resizeFailed(pod, result.Entries[i].Err)
	case result.Again() || i < 0 && isStuck(result):
	default:
		s.resizeCompleted(pod, i >= 0)
	}
}

// isStuck reports whether a step other than a container start failed. Containers may then still
// have their former resources.
func isStuck(result *pods.Result) bool {
	var errs []error
	for _, e := range result.Entries {
		if e.Err != nil && e.Action != pods.ActionStartContainer && e.Action != pods.ActionInitContainer {
			return true
		}
		errs = append(errs, e.Err)
	}
	return result.Err() != nil && errors.Join(errs...) == nil
}

func (s *Syncer) inProgress(pod *v1.Pod) *v1.PodCondition {
	if now := s.statuses.Get(pod.UID); now != nil {
		return podfacts.Condition(now.Conditions, v1.PodResizeInProgress)
	}
	return nil
}

// resizeFailed publishes the cause of a failed resize. It records one event per cause.
func (s *Syncer) resizeFailed(pod *v1.Pod, err error) {
	if before := s.inProgress(pod); before == nil || before.Message != err.Error() {
		s.event(podfacts.Reference(pod), v1.EventTypeWarning, reasonResizeError, podfacts.ResizeMessage("Pod resize error", pod, err.Error()))
	}
	s.statuses.Change(pod.UID, func(now v1.PodStatus) v1.PodStatus {
		return status.WithResizeInProgress(now, pod.Generation, podwright.Reason{Reason: v1.PodReasonError, Message: err.Error()}, time.Now())
	})
}

// resizeCompleted publishes that the pod has its desired resources.
func (s *Syncer) resizeCompleted(pod *v1.Pod, acted bool) {
	begun := s.inProgress(pod)
	if begun != nil {
		s.statuses.Change(pod.UID, status.WithoutResizeInProgress)
	}
	if acted || begun != nil {
		s.event.normal(pod, reasonResizeCompleted, podfacts.ResizeMessage("Pod resize completed", pod, ""))
	}
}

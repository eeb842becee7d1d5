package agent

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/status"
)

// resized shows what a sync has made of the resources of running containers: a
// resize that failed is in progress, with reason Error, until one succeeds or there
// is nothing to resize any more. A sync that did not come to it changes nothing.
func (s *syncer) resized(pod *v1.Pod, result *pods.Result) {
	i := slices.IndexFunc(result.Entries, func(e pods.Entry) bool { return e.Action == pods.ActionResizePodInPlace })
	if i < 0 && result.Err() != nil {
		return
	}
	var failed error
	if i >= 0 {
		failed = result.Entries[i].Err
	}
	if i >= 0 && failed == nil {
		s.event.normal(pod, eventResizeCompleted, "Resized the containers of the pod in place")
	}
	s.statuses.Change(pod.UID, func(now v1.PodStatus) v1.PodStatus {
		if failed == nil {
			return status.WithoutResizeInProgress(now)
		}
		why := status.Reason{Reason: v1.PodReasonError, Message: failed.Error()}
		return status.WithResizeInProgress(now, pod.Generation, why, time.Now())
	})
}

package agent

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
)

// publish computes a pod's status, stores it and returns it.
func (s *syncer) publish(w podworkers.Work, observed *pleg.PodStatus, terminal bool) status.Result {
	return s.compute(w, observed, terminal, nil)
}

// compute is publish for a pod that has failed, if fail says why and it has not
// ended otherwise.
func (s *syncer) compute(w podworkers.Work, observed *pleg.PodStatus, terminal bool, fail *status.Reason) status.Result {
	pod := w.Pod
	now, previous := time.Now(), s.statuses.Get(pod.UID)
	kept := recalled(pod, observed)
	result := status.Compute(status.Input{
		Pod:           pod,
		Observed:      observed,
		StartFailures: status.Reasons(s.runtime.StartFailures(pod.UID)),
		Probes:        s.probes.Results(pod.UID),
		HostIPs:       s.hostIPs(),
		Previous:      previous,
		API:           kept,
		Fail:          cmp.Or(deadline(pod, cmp.Or(previous, kept).StartTime, now), fail),
		Override:      w.Status,
		Terminal:      terminal,
		Now:           now,
	})
	s.statuses.Set(pod, result.Status)
	s.probes.Trigger(pod.UID, result.ProbeNow...)
	return result
}

// readyToStart says that the sandbox is there, without waiting for what is pulled
// and started in it.
func (s *syncer) readyToStart(pod *v1.Pod) {
	s.statuses.Change(pod.UID, func(now v1.PodStatus) v1.PodStatus { return status.WithReadyToStart(pod, now, time.Now()) })
}

// incomplete is why a pod fails that cannot go on where it was.
func incomplete() *status.Reason {
	return &status.Reason{
		Reason:  "SandboxLost",
		Message: "The pod lost its sandbox before all of its containers had run, and restartPolicy Never does not run it again",
	}
}

// recalled is the status that an API server would have kept of a pod: a restart of
// the agent does not make the pod begin anew.
func recalled(pod *v1.Pod, observed *pleg.PodStatus) *v1.PodStatus {
	kept := pod.Status
	if kept.StartTime != nil || observed == nil {
		return &kept
	}
	for _, sandbox := range observed.Sandboxes {
		if at := sandbox.CreatedAt; !at.IsZero() && (kept.StartTime == nil || at.Before(kept.StartTime.Time)) {
			kept.StartTime = &metav1.Time{Time: at}
		}
	}
	return &kept
}

// deadline is why a pod fails that has been active for longer than its
// activeDeadlineSeconds; nil for every other pod.
func deadline(pod *v1.Pod, start *metav1.Time, now time.Time) *status.Reason {
	if !syncloop.PastActiveDeadline(pod, start, now) {
		return nil
	}
	return &status.Reason{Reason: status.ReasonDeadlineExceeded, Message: "Pod was active on the node longer than the specified deadline"}
}

package podsyncer

import (
	"cmp"
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
)

// publish computes, stores and returns a pod's status.
func (s *Syncer) publish(w podworkers.Work, observed *observed.Pod, terminal bool) status.Result {
	return s.compute(w, observed, terminal, nil)
}

// compute is publish for a pod that fails with the reason fail, unless fail is nil or the pod has
// ended otherwise.
func (s *Syncer) compute(w podworkers.Work, observed *observed.Pod, terminal bool, fail *podwright.Reason) status.Result {
	pod := w.Pod
	now, previous := time.Now(), s.statuses.Get(pod.UID)
	api := withStartTime(pod, observed)
	result, err := status.Compute(status.Input{
		Pod:           pod,
		Observed:      observed,
		StartFailures: s.pods.StartFailures(pod.UID),
		Probes:        s.probes.Results(pod.UID),
		Applied:       s.pods.Applied(pod),
		HostIPs:       s.cfg.HostIPs(),
		Previous:      previous,
		API:           api,
		Fail:          cmp.Or(deadline(pod, cmp.Or(previous, api).StartTime, now), fail),
		Override:      w.Status,
		Terminal:      terminal,
		Now:           now,

		RecursiveReadOnly: s.pods.RecursiveReadOnly(pod),
	})
	if err != nil {
		s.refused(pod, err)
		return status.Result{Status: *cmp.Or(previous, api)}
	}
	result.Status = s.cfg.Amend(pod, result.Status)
	s.sinks.put(pod)
	s.refused(pod, s.statuses.Set(pod, result.Status))
	s.probes.Trigger(pod.UID, result.ProbeNow...)
	return result
}

// refused logs that the writer refused a status. It does not happen to pods with a worker, because
// the workers refuse ambiguous pods, too.
func (s *Syncer) refused(pod *v1.Pod, err error) {
	if err != nil {
		s.log.Error("status refused", "pod", pod.Namespace+"/"+pod.Name, "podUID", pod.UID, "err", err)
	}
}

// publishResult publishes the outcome of a sync. The observation from before the sync does not show
// it: without a newer one (nil and an error), the last published status stays.
func (s *Syncer) publishResult(ctx context.Context, w podworkers.Work, observed *observed.Pod, result *pods.Result) (*observed.Pod, status.Result, error) {
	var err error
	switch {
	case !result.Acted():
	case ctx.Err() != nil:
		observed, err = nil, ctx.Err()
	default:
		podworkers.SetStep(ctx, "observing the result")
		observed, err = s.observer.Observe(ctx, w.Pod.UID, time.Now())
	}
	return observed, s.publish(w, observed, false), err
}

func (s *Syncer) publishReadyToStart(pod *v1.Pod, at time.Time) {
	s.statuses.Change(pod.UID, func(was v1.PodStatus) v1.PodStatus { return status.WithReadyToStart(pod, was, at) })
}

// incomplete returns the failure reason of a pod that lost its sandbox and cannot continue.
func incomplete() *podwright.Reason {
	return &podwright.Reason{
		Reason:  "SandboxLost",
		Message: "The pod lost its sandbox before all of its containers had run, and restartPolicy Never does not run it again",
	}
}

// withStartTime returns the pod's API status, with the start time from its oldest sandbox if it has
// none. A static pod keeps its start time across restarts of the agent.
func withStartTime(pod *v1.Pod, observed *observed.Pod) *v1.PodStatus {
	s := pod.Status
	if s.StartTime != nil || observed == nil {
		return &s
	}
	for _, sandbox := range observed.Sandboxes {
		if at := sandbox.CreatedAt; !at.IsZero() && (s.StartTime == nil || at.Before(s.StartTime.Time)) {
			s.StartTime = &metav1.Time{Time: at}
		}
	}
	return &s
}

// deadline returns the failure reason of a pod past its activeDeadlineSeconds, or nil.
func deadline(pod *v1.Pod, start *metav1.Time, now time.Time) *podwright.Reason {
	if !syncloop.PastActiveDeadline(pod, start, now) {
		return nil
	}
	return &podwright.Reason{Reason: status.ReasonDeadlineExceeded, Message: "Pod was active on the node longer than the specified deadline"}
}

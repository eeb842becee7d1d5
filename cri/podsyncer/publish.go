package podsyncer

import (
	"cmp"
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
)

// publish computes a pod's status, stores it and returns it.
func (s *Syncer) publish(w podworkers.Work, observed *observed.Pod, terminal bool) status.Result {
	return s.compute(w, observed, terminal, nil)
}

// compute is publish for a pod that has failed, if fail says why and it has not
// ended otherwise.
func (s *Syncer) compute(w podworkers.Work, observed *observed.Pod, terminal bool, fail *status.Reason) status.Result {
	pod := w.Pod
	now, previous := time.Now(), s.statuses.Get(pod.UID)
	api := withStartTime(pod, observed)
	result, err := status.Compute(status.Input{
		Pod:           pod,
		Observed:      observed,
		StartFailures: status.Reasons(s.pods.StartFailures(pod.UID)),
		Probes:        s.probes.Results(pod.UID),
		Applied:       s.pods.Applied(pod),
		HostIPs:       s.cfg.HostIPs(),
		Previous:      previous,
		API:           api,
		Fail:          cmp.Or(deadline(pod, cmp.Or(previous, api).StartTime, now), fail),
		Override:      w.Status,
		Terminal:      terminal,
		Now:           now,
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

// refused logs that a status was not taken, which no pod that has a worker meets: the
// workers refuse pods that cannot be told apart, too.
func (s *Syncer) refused(pod *v1.Pod, err error) {
	if err != nil {
		s.log.Error("status refused", "pod", pod.Namespace+"/"+pod.Name, "podUID", pod.UID, "err", err)
	}
}

// publishResult shows what a sync has brought about. What was seen before the sync says
// nothing of that: without a newer look, which is nil and an error, what was published
// last is still all that is known.
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

// publishReadyToStart says that the sandbox is there.
func (s *Syncer) publishReadyToStart(pod *v1.Pod, at time.Time) {
	s.statuses.Change(pod.UID, func(was v1.PodStatus) v1.PodStatus { return status.WithReadyToStart(pod, was, at) })
}

// incomplete is why a pod fails that cannot go on where it was.
func incomplete() *status.Reason {
	return &status.Reason{
		Reason:  "SandboxLost",
		Message: "The pod lost its sandbox before all of its containers had run, and restartPolicy Never does not run it again",
	}
}

// withStartTime is the status that an API server has of a pod, or would have: a
// restart of the agent does not make a static pod begin anew.
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

// deadline is why a pod fails that has been active for longer than its
// activeDeadlineSeconds; nil for every other pod.
func deadline(pod *v1.Pod, start *metav1.Time, now time.Time) *status.Reason {
	if !syncloop.PastActiveDeadline(pod, start, now) {
		return nil
	}
	return &status.Reason{Reason: status.ReasonDeadlineExceeded, Message: "Pod was active on the node longer than the specified deadline"}
}

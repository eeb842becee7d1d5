package syncloop

import (
	"context"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/internal/run"
)

// PastActiveDeadline reports whether a pod that started at start has exceeded its
// activeDeadlineSeconds. start is nil for a pod that has not started. SyncPod calls it, publishes
// such a pod as Failed with the reason DeadlineExceeded, and returns terminal.
func PastActiveDeadline(pod *v1.Pod, start *metav1.Time, now time.Time) bool {
	end, ok := activeDeadline(pod, start)
	return ok && !now.Before(end)
}

// activeDeadline returns the end of a pod's active time, or false if it is unlimited or has not
// begun.
func activeDeadline(pod *v1.Pod, start *metav1.Time) (time.Time, bool) {
	limit := pod.Spec.ActiveDeadlineSeconds
	if limit == nil || start == nil || start.IsZero() {
		return time.Time{}, false
	}
	return start.Add(seconds(*limit)), true
}

// seconds converts n to a duration. Negative numbers become 0, and numbers beyond the range of
// time.Duration become the longest one.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), math.MaxInt64/int64(time.Second))) * time.Second
}

// deadlinePeriod is the longest pause between two scans for new pods.
const deadlinePeriod = time.Second

// ActiveDeadlines returns an EventSource that emits SyncDue for a pod at the moment when its
// activeDeadlineSeconds expire. started returns the start time of a pod's status, or nil if the
// pod has not started. The start time must survive a restart of the agent, because the pod's time
// continues meanwhile. Default: the start time in the status from the pod's source, as an API
// server delivers it.
func (h *DefaultHandler) ActiveDeadlines(started func(pod *v1.Pod) *metav1.Time) EventSource {
	if started == nil {
		started = func(pod *v1.Pod) *metav1.Time { return pod.Status.StartTime }
	}
	return EventSourceFunc(func(ctx context.Context, emit func(Event)) error {
		emitted := deadlines{}
		for {
			past, pause := emitted.check(h.podsWithDeadline(), started, time.Now())
			for _, uid := range past {
				emit(Event{Kind: SyncDue, UID: uid})
			}
			if !run.Sleep(ctx, pause) {
				return nil
			}
		}
	})
}

func (h *DefaultHandler) podsWithDeadline() []*v1.Pod {
	var pods []*v1.Pod
	for _, pod := range h.desired.Pods() {
		if pod.Spec.ActiveDeadlineSeconds == nil || podfacts.IsTerminalPhase(pod.Status.Phase) || h.isUnadmitted(pod.UID) ||
			h.cfg.Workers.State(pod.UID).TerminationRequested() {
			continue
		}
		pods = append(pods, pod)
	}
	return pods
}

// deadlines are the deadlines for which an event was emitted, by pod.
type deadlines map[types.UID]time.Time

// check returns the newly expired pods, and the pause until the next check.
func (d deadlines) check(pods []*v1.Pod, started func(*v1.Pod) *metav1.Time, now time.Time) (past []types.UID, pause time.Duration) {
	pause = deadlinePeriod
	current := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		end, ok := activeDeadline(pod, started(pod))
		if !ok {
			continue
		}
		current[pod.UID] = true
		remaining := end.Sub(now)
		switch {
		case remaining > 0:
			pause = min(pause, remaining)
			delete(d, pod.UID)
		case !d[pod.UID].Equal(end):
			d[pod.UID] = end
			past = append(past, pod.UID)
		}
	}
	for uid := range d {
		if !current[uid] {
			delete(d, uid)
		}
	}
	return past, pause
}

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

// PastActiveDeadline tells whether a pod that began at start has been active for
// longer than its activeDeadlineSeconds allow. start is nil for a pod that has not
// begun. It is the syncer's part of active deadlines: SyncPod publishes such a pod
// as Failed with the reason DeadlineExceeded and returns terminal.
func PastActiveDeadline(pod *v1.Pod, start *metav1.Time, now time.Time) bool {
	end, ok := activeDeadline(pod, start)
	return ok && !now.Before(end)
}

// activeDeadline returns when a pod's time is up, if it is limited.
func activeDeadline(pod *v1.Pod, start *metav1.Time) (time.Time, bool) {
	limit := pod.Spec.ActiveDeadlineSeconds
	if limit == nil || start == nil || start.IsZero() {
		return time.Time{}, false
	}
	return start.Add(seconds(*limit)), true
}

// seconds is a number of seconds as a duration: 0 for less, and the longest for more
// than a duration can be.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), math.MaxInt64/int64(time.Second))) * time.Second
}

// deadlinePeriod is how often ActiveDeadlines looks for new pods.
const deadlinePeriod = time.Second

// ActiveDeadlines returns an EventSource that makes a pod sync when its
// activeDeadlineSeconds are up, to the moment. started returns when a pod began,
// nil if it has not; it is the start time of the pod's status. It must survive a
// restart of the agent, since a pod's time goes on meanwhile. nil means the one in
// the status that the source of the pod delivers, as an API server does.
func (h *DefaultHandler) ActiveDeadlines(started func(pod *v1.Pod) *metav1.Time) EventSource {
	if started == nil {
		started = func(pod *v1.Pod) *metav1.Time { return pod.Status.StartTime }
	}
	return EventSourceFunc(func(ctx context.Context, emit func(Event)) error {
		told := deadlines{}
		for {
			past, pause := told.check(h.limited(), started, time.Now())
			for _, uid := range past {
				emit(Event{Kind: SyncDue, UID: uid})
			}
			if !run.Sleep(ctx, pause) {
				return nil
			}
		}
	})
}

// limited returns the pods that run and have a deadline.
func (h *DefaultHandler) limited() []*v1.Pod {
	var pods []*v1.Pod
	for _, pod := range h.desired.Pods() {
		if pod.Spec.ActiveDeadlineSeconds == nil || podfacts.IsTerminalPhase(pod.Status.Phase) || h.outside(pod.UID) ||
			h.cfg.Workers.State(pod.UID).TerminationRequested() {
			continue
		}
		pods = append(pods, pod)
	}
	return pods
}

// deadlines are those that were told.
type deadlines map[types.UID]time.Time

// check returns the pods whose time is up and were not told, and for how long
// nobody else's is.
func (d deadlines) check(pods []*v1.Pod, started func(*v1.Pod) *metav1.Time, now time.Time) (past []types.UID, pause time.Duration) {
	pause = deadlinePeriod
	current := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		end, ok := activeDeadline(pod, started(pod))
		if !ok {
			continue
		}
		current[pod.UID] = true
		left := end.Sub(now)
		switch {
		case left > 0:
			pause = min(pause, left)
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

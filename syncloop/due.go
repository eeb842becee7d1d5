package syncloop

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ShouldSync returns an EventSource that asks, once per period, which pods have
// become due for a reason that nobody else reports, and emits SyncDue for them. A
// period of zero means 1 s. pods is usually DefaultHandler.ActivePods.
func ShouldSync(period time.Duration, pods func() []*v1.Pod, due func(pod *v1.Pod, now time.Time) bool) EventSource {
	setDefault(&period, time.Second)
	return EventSourceFunc(func(ctx context.Context, emit func(Event)) error {
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			now := time.Now()
			for _, pod := range pods() {
				if due(pod, now) {
					emit(Event{Kind: SyncDue, UID: pod.UID})
				}
			}
		}
	})
}

// PastActiveDeadline tells whether a pod that began at start has been active for
// longer than its activeDeadlineSeconds allow. start is nil for a pod that has not
// begun.
func PastActiveDeadline(pod *v1.Pod, start *metav1.Time, now time.Time) bool {
	limit := pod.Spec.ActiveDeadlineSeconds
	if limit == nil || start == nil || start.IsZero() {
		return false
	}
	return now.Sub(start.Time) >= time.Duration(*limit)*time.Second
}

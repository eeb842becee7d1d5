package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/podsource"
)

// statusWait bounds the wait, after a restart, for the statuses of the served pods.
const statusWait = time.Minute

// rollout replaces the pods of messages one at a time. As a syncloop.PodSource it returns the newest
// set, with the older version of each pod that waits. A version of a pod has its own UID, which
// podsource.Decoder derives from the manifest. With a metadata.uid in the manifest a change is an
// update of the running pod, and does not wait.
//
//   - New pods start at once, and removed pods end at once.
//   - An outdated pod is replaced while all pods in their newest version are ready, in the order of
//     the newest set.
//   - An outdated pod that is not ready is replaced before others, and does not wait for new pods.
//   - A pod is ready after it was Ready for minReady without a break, or when it has succeeded and
//     is not restarted.
//   - A pod that does not become ready stops the rollout until a newer message has another version
//     of it, older or newer, or is without it.
//
// A rollout continues from the newest set, the set that it returned last and the statuses of the
// pods. Both sets are on the disk before the Loop handles them, so the agent may be killed at any
// line. rollout is safe for concurrent use.
type rollout struct {
	*podsource.Saved // the newest set
	minReady         time.Duration
	change           chan struct{} // has an element when the set may change

	mu              sync.Mutex
	desired, served []*v1.Pod // the newest set and the returned set, as of the last call of Pods
	states          map[types.UID]state
	waitsUntil      time.Time // the end of the wait for statuses
}

// state is the readiness of a pod, its last transition, and the time when it takes effect.
type state struct {
	ready      bool
	transition metav1.Time
	from       time.Time
}

// newRollout returns a rollout that replaces the pods of served, the set before a restart.
func newRollout(newest *podsource.Saved, served []*v1.Pod, minReady time.Duration) *rollout {
	r := &rollout{
		Saved: newest, minReady: minReady, change: make(chan struct{}, 1),
		desired: served, served: served, states: map[types.UID]state{}, waitsUntil: time.Now().Add(statusWait),
	}
	time.AfterFunc(statusWait, r.wake)
	return r
}

// Run implements syncloop.EventSource: it reports that the set may change.
func (r *rollout) Run(ctx context.Context, emit func(syncloop.Event)) error {
	for {
		emit(syncloop.Event{Kind: syncloop.PodsChanged, Source: source})
		select {
		case <-ctx.Done():
			return nil
		case <-r.change:
		}
	}
}

func (r *rollout) wake() {
	select {
	case r.change <- struct{}{}:
	default:
	}
}

// receive is a status.SinkFunc that records whether a pod is ready.
func (r *rollout) receive(_ context.Context, pod *v1.Pod, s *v1.PodStatus) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, known := r.states[pod.UID]
	transition, ready := readySince(pod, s)
	if !known || was.ready != ready || !was.transition.Equal(&transition) {
		r.states[pod.UID] = state{ready, transition, time.Now().Add(r.minReady)}
		time.AfterFunc(r.minReady, r.wake)
	}
	return nil
}

// readySince reports whether a pod is ready or has succeeded, and the time of the transition.
func readySince(pod *v1.Pod, s *v1.PodStatus) (transition metav1.Time, ready bool) {
	if s.Phase == v1.PodSucceeded { // of a pod that always restarts: it is being stopped
		return metav1.Time{}, pod.Spec.RestartPolicy == v1.RestartPolicyNever || pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure
	}
	for _, c := range s.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return c.LastTransitionTime, true
		}
	}
	return metav1.Time{}, false
}

// isReady reports whether a pod counts as ready. The caller holds mu.
func (r *rollout) isReady(uid types.UID) bool {
	state := r.states[uid]
	return state.ready && !state.from.After(time.Now())
}

// Pods implements syncloop.PodSource. It returns the set to serve now.
func (r *rollout) Pods(name string) (pods []*v1.Pod, delivered bool) {
	desired, delivered := r.Saved.Pods(name)
	if name != source || !delivered {
		return desired, delivered
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.states, func(uid types.UID, _ state) bool { return !has(r.served, uid) })
	unknown := slices.ContainsFunc(r.served, func(pod *v1.Pod) bool { return r.states[pod.UID].from.IsZero() })
	r.desired, r.served = desired, next(desired, r.served, r.isReady, unknown && time.Now().Before(r.waitsUntil))
	return slices.Clone(r.served), true
}

// progress returns the names of the pods in their newest version that are not ready, and of
// outdated pods. A rollout is stuck while neither list is empty and both stay the same.
func (r *rollout) progress() (unready, waiting []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, pod := range r.desired {
		switch {
		case r.served[i].UID != pod.UID:
			waiting = append(waiting, pod.Name)
		case !r.isReady(pod.UID):
			unready = append(unready, pod.Name)
		}
	}
	return unready, waiting
}

// next returns the set to serve: each desired pod in its newest version, or in the served version
// while it is outdated and waits. It replaces at most one outdated pod, and none if hold is true.
func next(desired, served []*v1.Pod, ready func(types.UID) bool, hold bool) []*v1.Pod {
	old := map[string]*v1.Pod{}
	for _, pod := range served {
		old[pod.Namespace+"/"+pod.Name] = pod
	}
	pods, added := slices.Clone(desired), false
	for i, pod := range desired {
		was := old[pod.Namespace+"/"+pod.Name]
		switch {
		case was == nil:
			added = true
		case !has(desired, was.UID):
			pods[i] = was
		case !ready(pod.UID):
			hold = true
		}
	}
	replaceFirst := func(whenReady bool) {
		for i, pod := range desired {
			if !hold && pods[i] != pod && ready(pods[i].UID) == whenReady {
				pods[i], hold = pod, true
			}
		}
	}
	replaceFirst(false) // a broken pod waits for no new ones
	hold = hold || added
	replaceFirst(true)
	return pods
}

func has(pods []*v1.Pod, uid types.UID) bool {
	return slices.ContainsFunc(pods, func(pod *v1.Pod) bool { return pod.UID == uid })
}

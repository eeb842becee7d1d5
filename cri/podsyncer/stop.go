package podsyncer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/podworkers"
)

// errStillRunning is returned if containers run after the runtime reported their stop.
var errStillRunning = errors.New("containers still run after the runtime reported their stop")

// SyncTerminatingPod implements podworkers.PodSyncer: it stops a pod's containers. It first stops
// the containers of the last observation, then observes again, and stops further ones.
//
// Unless its source dropped the pod, the end is published and saved before the stop: if the agent
// is killed in between, the next one ends the pod for the same reason. A dropped pod has no state
// to save, and its containers do not wait for the disk.
func (s *Syncer) SyncTerminatingPod(ctx context.Context, w podworkers.Work) error {
	dropped := s.restoreOrDropped(w)
	s.probes.StopLivenessAndStartup(w.Pod.UID)
	known, err := s.observer.Get(w.Pod.UID)
	if err != nil || known.ObservedAt.IsZero() {
		if dropped {
			s.forget(w.Pod.UID) // the runtime may be unavailable for long
		}
		if known, err = s.observe(ctx, w.Pod, w.ActedAt); err != nil {
			return err
		}
	}
	shown := &progress{s: s, w: w, stopping: true}
	published := s.publishEnding(ctx, shown, known, dropped)
	defer func() { _ = published() }()
	stopped, err := s.stop(ctx, known, pods.KillRequest{Pod: w.Pod, GraceSeconds: graceOf(w)}, shown)
	if panicked := published(); err == nil {
		err = panicked
	}
	if err != nil {
		return err
	}
	s.probes.RemovePod(w.Pod.UID)
	s.publish(w, stopped, true)
	s.save(ctx, w.Pod.UID)
	return nil
}

// publishEnding publishes and saves that a pod is ending. For a dropped pod it forgets the record and
// publishes in the background. The returned function waits for it.
func (s *Syncer) publishEnding(ctx context.Context, shown *progress, known *observed.Pod, dropped bool) (wait func() error) {
	w := shown.w
	publish := func() { shown.show(known.ObservedAt, func() { s.publish(w, known, false) }) }
	if !dropped {
		publish()
		s.save(ctx, w.Pod.UID)
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		done <- run.Guard("publishing the status of a deleted pod", func() error {
			s.forget(w.Pod.UID)
			publish()
			return nil
		})
	}()
	return sync.OnceValue(func() error { return <-done })
}

// graceOf returns the grace period that replaces the ones of the spec, or nil.
func graceOf(w podworkers.Work) *int64 {
	if w.GraceFromSpec {
		return nil
	}
	return &w.GracePeriodSeconds
}

// SyncTerminatingOrphan implements podworkers.OrphanSyncer: it stops a pod that only the runtime
// has.
func (s *Syncer) SyncTerminatingOrphan(ctx context.Context, p podworkers.RuntimePod, actedAt time.Time) error {
	end, err := s.podLocks.take(ctx, p.UID)
	if err != nil {
		return err
	}
	defer end()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
	known, err := s.observe(ctx, pod, actedAt)
	if err != nil {
		return err
	}
	s.log.Info("stopping an orphaned pod", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID)
	_, err = s.stop(ctx, known, pods.KillRequest{Message: "Stopping an orphaned pod"}, nil)
	if err == nil {
		s.ended.set(p.UID, true) // a manifest that returns is a new pod
		s.housekeep()            // not after a failure: housekeeping would retry at once, forever
	}
	return err
}

// stop kills the pod until a later observation shows that no container runs. It gives up after
// three attempts. shown publishes the pod's status meanwhile; nil publishes none.
func (s *Syncer) stop(ctx context.Context, known *observed.Pod, r pods.KillRequest, shown *progress) (*observed.Pod, error) {
	const attempts = 3
	for range attempts {
		podworkers.SetStep(ctx, "stopping containers")
		r.Status = known
		var result pods.Result
		s.observer.change(known.UID, func() bool {
			if shown != nil {
				defer shown.follow(ctx)()
			}
			result = s.pods.KillPod(ctx, r)
			return true
		})
		if err := result.Err(); err != nil {
			s.observer.Request(known.UID, pleg.Acted) // some containers may have stopped
			return nil, s.warn(ctx, podOf(r.Pod, known), reasonFailedKillPod, err)
		}
		podworkers.SetStep(ctx, "observing the result")
		now, err := s.observer.Observe(ctx, known.UID, time.Now())
		if err != nil {
			return nil, s.warn(ctx, podOf(r.Pod, known), reasonFailedSync, err)
		}
		if now.Stopped() {
			return now, nil
		}
		known = now
	}
	return nil, fmt.Errorf("pod %s/%s: %w", known.Namespace, known.Name, errStillRunning)
}

// podOf returns the pod of an event: the caller's, or one made from the observation.
func podOf(pod *v1.Pod, observed *observed.Pod) *v1.Pod {
	if pod != nil {
		return pod
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: observed.Namespace, Name: observed.Name, UID: observed.UID}}
}

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

// errStillRunning is returned when containers run although the runtime said that
// they were stopped.
var errStillRunning = errors.New("containers still run after the runtime stopped them")

// SyncTerminatingPod implements podworkers.PodSyncer: it stops a pod's containers.
// It stops what is known first and looks afterwards; what the look finds is stopped
// as well.
//
// A pod whose end is to be told is told of, and saved, before it is stopped: an agent
// that is killed in between ends it again, for the same reason. Of one that its source
// has dropped there is nothing to save, and its containers do not wait for the disk.
func (s *Syncer) SyncTerminatingPod(ctx context.Context, w podworkers.Work) error {
	dropped := s.restoreOrDropped(w)
	s.probes.StopLivenessAndStartup(w.Pod.UID)
	known, err := s.observer.Get(w.Pod.UID)
	if err != nil || known.ObservedAt.IsZero() {
		if dropped {
			s.forget(w.Pod.UID) // the runtime may be away for long
		}
		if known, err = s.observe(ctx, w.Pod, w.ActedAt); err != nil {
			return err
		}
	}
	told := s.tell(ctx, w, known, dropped)
	defer func() { _ = told() }()
	stopped, err := s.stop(ctx, known, pods.KillRequest{Pod: w.Pod, GraceSeconds: graceOf(w)})
	if panicked := told(); err == nil {
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

// tell publishes and saves that a pod is ending: in the background if that is to be
// forgotten with the pod. The returned function waits for it.
func (s *Syncer) tell(ctx context.Context, w podworkers.Work, known *observed.Pod, dropped bool) (wait func() error) {
	if !dropped {
		s.publish(w, known, false)
		s.save(ctx, w.Pod.UID)
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		done <- run.Guard("telling of a pod that its source has dropped", func() error {
			s.forget(w.Pod.UID)
			s.publish(w, known, false)
			return nil
		})
	}()
	return sync.OnceValue(func() error { return <-done })
}

// graceOf is the grace period that replaces those of the spec, nil for none.
func graceOf(w podworkers.Work) *int64 {
	if w.GraceFromSpec {
		return nil
	}
	return &w.GracePeriodSeconds
}

// SyncTerminatingOrphan implements podworkers.OrphanSyncer: it stops a pod that only
// the runtime knows.
func (s *Syncer) SyncTerminatingOrphan(ctx context.Context, p podworkers.RuntimePod, actedAt time.Time) error {
	end, err := s.turns.take(ctx, p.UID)
	if err != nil {
		return err
	}
	defer end()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
	known, err := s.observe(ctx, pod, actedAt)
	if err != nil {
		return err
	}
	s.log.Info("stopping a pod that no source names", "pod", p.Namespace+"/"+p.Name, "podUID", p.UID)
	_, err = s.stop(ctx, known, pods.KillRequest{Message: "Stopping a pod that no source names"})
	if err == nil {
		s.housekeep() // not after a failure: housekeeping would try again at once, for ever
	}
	return err
}

// stop kills until an observation made afterwards shows that nothing runs.
func (s *Syncer) stop(ctx context.Context, known *observed.Pod, r pods.KillRequest) (*observed.Pod, error) {
	const attempts = 3
	for range attempts {
		podworkers.SetStep(ctx, "stopping containers")
		r.Status = known
		var result pods.Result
		s.observer.change(known.UID, func() bool {
			result = s.pods.KillPod(ctx, r)
			return true
		})
		if err := result.Err(); err != nil {
			s.observer.Request(known.UID, pleg.Acted) // part of it may have stopped
			return nil, s.warn(ctx, podOf(r.Pod, known), ReasonFailedKillPod, err)
		}
		podworkers.SetStep(ctx, "observing the result")
		now, err := s.observer.Observe(ctx, known.UID, time.Now())
		if err != nil {
			return nil, s.warn(ctx, podOf(r.Pod, known), ReasonFailedSync, err)
		}
		if now.Stopped() {
			return now, nil
		}
		known = now
	}
	return nil, fmt.Errorf("pod %s/%s: %w", known.Namespace, known.Name, errStillRunning)
}

// podOf is the pod that an event is about: that of the caller, or else what the
// runtime knows of it.
func podOf(pod *v1.Pod, observed *observed.Pod) *v1.Pod {
	if pod != nil {
		return pod
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: observed.Namespace, Name: observed.Name, UID: observed.UID}}
}

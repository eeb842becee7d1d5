package podsyncer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/stages"
)

// errNotRemoved is returned if an observation after the removal still shows the pod.
var errNotRemoved = errors.New("the runtime still lists the pod after its removal")

// SyncTerminatedPod implements podworkers.PodSyncer: it releases a pod's resources. A pod that
// ended by itself keeps its containers, for their logs, until its source drops it. If a source
// has named the UID again by then, the next pod with the UID removes them.
func (s *Syncer) SyncTerminatedPod(ctx context.Context, w podworkers.Work) error {
	if s.hasSource(w.Pod.UID) {
		if err := s.stages.Release(ctx, w.Pod.UID, stages.Stopped); err != nil {
			return err
		}
		s.sinks.put(w.Pod)
		if err := s.statuses.Terminate(w.Pod); err != nil {
			return err
		}
		s.save(ctx, w.Pod.UID)
		s.ended.set(w.Pod.UID, true)
		return nil
	}
	if err := s.stopLate(ctx, w); err != nil {
		return err
	}
	podworkers.SetStep(ctx, "removing containers and sandboxes")
	end, err := s.podLocks.take(ctx, w.Pod.UID)
	if err != nil {
		return err
	}
	defer end()
	return s.remove(ctx, w.Pod.UID, w.ActedAt)
}

// stopLate stops containers that appeared after the pod's stop: a start that was cancelled may take
// effect later. It uses the shortest grace period, because the pod already received its own.
func (s *Syncer) stopLate(ctx context.Context, w podworkers.Work) error {
	observed, err := s.observe(ctx, w.Pod, w.ActedAt)
	if err != nil || observed.Stopped() {
		return err
	}
	shortest := int64(1)
	_, err = s.stop(ctx, observed, pods.KillRequest{Pod: w.Pod, GraceSeconds: &shortest}, nil)
	return err
}

// remove removes all of a stopped pod: saved state, resources for its runtime, containers,
// sandboxes, logs, and last the stages that show leftovers, such as its folder. It observes first,
// so that the next pod with the UID does not get an older observation.
func (s *Syncer) remove(ctx context.Context, uid types.UID, after time.Time) error {
	if err := s.records.Forget(uid); err != nil {
		return err
	}
	observed, err := s.observer.sinceChanged(ctx, uid, after)
	if err != nil {
		return err
	}
	if !observed.Stopped() {
		return fmt.Errorf("pod %s: %w", uid, errStillRunning)
	}
	if err := s.stages.Release(ctx, uid, stages.Stopped); err != nil {
		return err
	}
	s.observer.change(uid, func() bool {
		err = s.garbage.RemovePod(ctx, uid, observed)
		return true
	})
	left, lookErr := s.observer.Observe(ctx, uid, time.Now())
	switch {
	case err != nil:
		return err
	case lookErr != nil:
		return lookErr
	case !left.Empty():
		return fmt.Errorf("pod %s: %w", uid, errNotRemoved)
	}
	if err := s.stages.Release(ctx, uid, stages.Gone); err != nil {
		return err
	}
	s.observer.drop(uid, left.ObservedAt)
	s.adopter.drop(uid)
	s.forgetEnd(uid)
	return nil
}

// forgetEnd drops the state of an ended pod in memory.
func (s *Syncer) forgetEnd(uid types.UID) {
	s.records.Drop(uid)
	s.explanations.drop(uid)
	s.ended.drop(uid)
}

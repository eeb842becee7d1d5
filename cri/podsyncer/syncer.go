package podsyncer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/syncloop"
)

// SyncPod implements podworkers.PodSyncer: it brings a pod closer to its spec.
func (s *Syncer) SyncPod(ctx context.Context, w podworkers.Work) (terminal bool, err error) {
	s.cfg.OnSync(w)
	podworkers.SetStep(ctx, "waiting for the removal of the previous pod with this UID")
	end, err := s.podLocks.take(ctx, w.Pod.UID)
	if err != nil {
		return false, err
	}
	defer end()
	if err := s.removePredecessor(ctx, w); err != nil {
		return false, err
	}
	s.mayAdopt(w.Pod.UID)
	s.restore(w.Pod)
	if err := s.awaitNamesake(ctx, w.Pod); err != nil {
		return false, err
	}
	podworkers.SetStep(ctx, "observing the runtime")
	observed, err := s.observe(ctx, w.Pod, w.ActedAt)
	if err != nil {
		return false, err
	}
	s.adopt(ctx, w.Pod, observed)
	published := s.publish(w, observed, false)
	if podfacts.IsTerminalPhase(published.Status.Phase) {
		return true, nil
	}
	if rejected, err := s.prepare(ctx, w.Pod, observed); rejected || err != nil {
		return rejected, err
	}
	observed, result, err := s.syncUntilStarted(ctx, w, observed, published.RestartAll)
	if err := errors.Join(result.Err(), err, s.probes.AddPod(w.Pod)); err != nil || !result.Over() {
		return false, retryEarly(&result, err)
	}
	// Most pods that are over have succeeded or failed by now. The rest lost their sandbox before
	// all of their containers had run.
	s.compute(w, observed, false, incomplete())
	return true, nil
}

// observe is observer.sinceChanged with an event on failure. The absence of the whole runtime is no
// event of each pod: the Node reports it.
func (s *Syncer) observe(ctx context.Context, pod *v1.Pod, actedAt time.Time) (*observed.Pod, error) {
	observed, err := s.observer.sinceChanged(ctx, pod.UID, actedAt)
	switch {
	case err == nil:
		return observed, nil
	case grpcstatus.Code(err) == codes.Unavailable, s.observer.Health().ListError != nil:
		return nil, err
	default:
		return nil, s.warn(ctx, pod, reasonFailedSync, err)
	}
}

// removePredecessor removes the remains of an ended pod with the same UID. The new pod is a
// different one and must not inherit its state. The containers of a static pod that restarts always
// stay, so that their restart counts and previous logs continue.
func (s *Syncer) removePredecessor(ctx context.Context, w podworkers.Work) error {
	uid := w.Pod.UID
	if !s.ended.get(uid) {
		return nil
	}
	podworkers.SetStep(ctx, "removing the previous pod with this UID")
	if err := s.stopLate(ctx, w); err != nil {
		return err
	}
	if podfacts.IsStatic(w.Pod) && w.Pod.Spec.RestartPolicy == v1.RestartPolicyAlways {
		if err := s.records.Forget(uid); err != nil {
			return err
		}
		s.forgetEnd(uid)
	} else if err := s.remove(ctx, uid, w.ActedAt); err != nil {
		return err
	}
	s.statuses.Forget(uid)
	return nil
}

// prepare prepares the stages of a pod before its sandbox. A rejection is the pod's only event,
// since no retry follows.
func (s *Syncer) prepare(ctx context.Context, pod *v1.Pod, observed *observed.Pod) (rejected bool, err error) {
	if err := s.cfg.NetworkReady(); err != nil && !pod.Spec.HostNetwork {
		err = s.warn(ctx, pod, reasonNetworkNotReady, err)
		return false, fmt.Errorf("pod %s/%s: %w: %w", pod.Namespace, pod.Name, podworkers.ErrNetworkNotReady, err)
	}
	if err := s.stages.Prepare(ctx, pod); err != nil {
		if s.rejects(pod, observed, err) {
			return true, nil
		}
		return false, s.warn(ctx, pod, reasonOf(err, reasonFailedPrepare), err)
	}
	return false, nil
}

// rejects reports whether a stage rejected a pod without containers (the error wraps a
// syncloop.Rejection). Such a pod has failed.
func (s *Syncer) rejects(pod *v1.Pod, observed *observed.Pod, err error) bool {
	var why *syncloop.Rejection
	if !errors.As(err, &why) || len(observed.Containers) > 0 {
		return false
	}
	s.reject(pod, *why)
	return true
}

// reasonOf returns the event reason of an error: the result of its EventReason method, or
// otherwise.
func reasonOf(err error, otherwise string) string {
	var own interface{ EventReason() string }
	if errors.As(err, &own) {
		return own.EventReason()
	}
	return otherwise
}

// syncUntilStarted syncs the pod, and once more if the first sync only made room for a start. It
// returns an error if the outcome of the last sync could not be observed.
func (s *Syncer) syncUntilStarted(ctx context.Context, w podworkers.Work, observed *observed.Pod, restartAll bool) (*observed.Pod, pods.Result, error) {
	const rounds = 2
	var result pods.Result
	var err error
	for range rounds {
		s.probeAndSave(ctx, w.Pod)
		result = s.syncOnce(ctx, w, observed, restartAll)
		s.explanations.set(w.Pod.UID, explanation(result))
		s.publishResize(w.Pod, &result)
		var published status.Result
		observed, published, err = s.publishResult(ctx, w, observed, &result)
		restartAll = published.RestartAll
		if !result.Again() || result.Err() != nil || err != nil || ctx.Err() != nil {
			break
		}
	}
	return observed, result, err
}

func (s *Syncer) syncOnce(ctx context.Context, w podworkers.Work, known *observed.Pod, restartAll bool) (result pods.Result) {
	s.observer.change(w.Pod.UID, func() bool {
		shown := &progress{s: s, w: w}
		defer shown.follow(ctx)()
		result = s.pods.SyncPod(ctx, pods.SyncRequest{
			Pod:            w.Pod,
			Status:         known,
			Probes:         s.probes.Results(w.Pod.UID),
			RestartAll:     restartAll,
			OnStep:         func(step string) { podworkers.SetStep(ctx, step) },
			OnSandboxReady: shown.sandboxReady,
			Newer:          func() (*observed.Pod, probe.Results) { return s.newer(w.Pod.UID) },
		})
		return result.Acted()
	})
	return result
}

// newer returns the last observation of a pod with its probe results, or nil. It reads memory only.
func (s *Syncer) newer(uid types.UID) (*observed.Pod, probe.Results) {
	known, err := s.observer.Get(uid)
	if err != nil || known.ObservedAt.IsZero() {
		return nil, nil
	}
	return known, s.probes.Results(uid)
}

// pauseAfterFailure is the delay before a failed removal is retried. A container that the runtime
// is still starting for a dead agent cannot be removed. The start ends soon, but not every runtime
// reports its end.
const pauseAfterFailure = time.Second

// retryEarly sets an early retry if the removal of an old container failed.
func retryEarly(result *pods.Result, err error) error {
	for _, e := range result.Entries {
		if e.Action == pods.ActionRemoveContainer && e.Err != nil {
			return podworkers.RetryAt(err, time.Now().Add(pauseAfterFailure))
		}
	}
	return err
}

// warn records a warning about a pod, unless ctx is done. It returns err.
func (s *Syncer) warn(ctx context.Context, pod *v1.Pod, reason string, err error) error {
	if ctx.Err() == nil {
		s.event.warn(pod, reason, err)
	}
	return err
}

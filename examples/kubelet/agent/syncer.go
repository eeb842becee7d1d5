package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
	"github.com/podwright/podwright/status/writer"
)

// syncer is the reference PodSyncer: what a pod's worker does when it is the
// pod's turn.
type syncer struct {
	log         *slog.Logger
	event       recorder
	runtime     *pods.Manager
	garbage     *garbage.Collector
	observer    *observer
	statuses    *writer.Writer
	probes      *probe.Manager
	checkpoints *checkpoint.Keeper
	folders     folders
	// networkReady tells whether the runtime can give pods a network.
	networkReady func() error
	// hostIPs are the node's addresses.
	hostIPs func() []string
	// desired tells whether a source still names the pod.
	desired func(types.UID) bool
	// tidy is called when a pod has left something to housekeeping.
	tidy func()
	// turns keeps the janitor away from a pod that a worker starts or removes.
	turns *turns
	// kept are the pods that have ended and kept what they left.
	kept *uidSet
	// users are given back when a pod has gone.
	users *pods.UserNamespaces
	// explanations say why pods do not run all of their containers.
	explanations *explanations
}

var (
	_ podworkers.PodSyncer    = (*syncer)(nil)
	_ podworkers.OrphanSyncer = (*syncer)(nil)
)

// errStillRunning is returned when containers run although the runtime said that
// they were stopped.
var errStillRunning = errors.New("containers still run after the runtime stopped them")

// SyncPod brings a pod closer to its spec.
func (s *syncer) SyncPod(ctx context.Context, w podworkers.Work) (terminal bool, err error) {
	podworkers.SetStep(ctx, "waiting for the removal of its predecessor")
	end, err := s.turns.take(ctx, w.Pod.UID)
	if err != nil {
		return false, err
	}
	defer end()
	if err := s.succeed(ctx, w); err != nil {
		return false, err
	}
	s.recall(w.Pod)
	if err := s.awaitNamesake(ctx, w.Pod); err != nil {
		return false, err
	}
	podworkers.SetStep(ctx, "observing the runtime")
	observed, err := s.observer.sinceActed(ctx, w.Pod.UID, w.ActedAt)
	if err != nil {
		return false, s.warn(ctx, w.Pod, eventFailedSync, err)
	}
	published := s.publish(w, observed, false)
	if phase := published.Status.Phase; phase == v1.PodSucceeded || phase == v1.PodFailed {
		return true, nil
	}
	if err := s.networkReady(); err != nil && !w.Pod.Spec.HostNetwork {
		err = s.warn(ctx, w.Pod, eventNetworkNotReady, err)
		return false, fmt.Errorf("pod %s/%s: %w: %w", w.Pod.Namespace, w.Pod.Name, podworkers.ErrNetworkNotReady, err)
	}
	if err := s.folders.preparePod(w.Pod.UID); err != nil {
		return false, s.warn(ctx, w.Pod, eventFailedPodFolder, err)
	}
	observed, result := s.syncUntilStarted(ctx, w, observed, published.RestartAll)
	if err := errors.Join(result.Err(), s.probes.AddPod(w.Pod)); err != nil || !result.Over() {
		return false, soon(&result, err)
	}
	// Most pods that are over have succeeded or failed by now. The others lost
	// their sandbox before all of their containers had had their turn.
	s.compute(w, observed, false, incomplete())
	return true, nil
}

// syncUntilStarted does what there is to do. A sync that has only cleared the way is
// followed by one that starts what it cleared the way for.
func (s *syncer) syncUntilStarted(ctx context.Context, w podworkers.Work, observed *pleg.PodStatus, restartAll bool) (*pleg.PodStatus, pods.Result) {
	const rounds = 2
	var result pods.Result
	for range rounds {
		s.remember(ctx, w.Pod)
		s.observer.act(w.Pod.UID, func() bool {
			defer s.meanwhile(ctx, w)()
			result = s.runtime.SyncPod(ctx, pods.SyncRequest{
				Pod:          w.Pod,
				Status:       observed,
				Probes:       s.probes.Results(w.Pod.UID),
				RestartAll:   restartAll,
				SetStep:      func(step string) { podworkers.SetStep(ctx, step) },
				SandboxReady: func([]string) { s.readyToStart(w.Pod) },
			})
			return result.Acted()
		})
		s.explanations.set(w.Pod.UID, result.Explanation())
		s.resized(w.Pod, &result)
		var published status.Result
		observed, published = s.republish(ctx, w, observed, &result)
		restartAll = published.RestartAll
		if !result.Again() || result.Err() != nil || ctx.Err() != nil {
			break
		}
	}
	return observed, result
}

// clearing is when a container is tried to be removed again that the runtime is
// still starting for an agent that has died. The start ends soon, one way or the
// other, and not every runtime tells.
const clearing = time.Second

// soon has a sync repeated soon that only something from before stood in the way of.
func soon(result *pods.Result, err error) error {
	for _, e := range result.Entries {
		if e.Action == pods.ActionRemoveContainer && e.Err != nil {
			return podworkers.RetryAt(err, time.Now().Add(clearing))
		}
	}
	return err
}

// succeed makes room for a pod whose UID is that of one that has ended: it is
// another pod, whose fate must not be that of the former.
func (s *syncer) succeed(ctx context.Context, w podworkers.Work) error {
	if !s.kept.has(w.Pod.UID) {
		return nil
	}
	podworkers.SetStep(ctx, "removing its predecessor")
	if err := s.remove(ctx, w.Pod.UID, w.ActedAt); err != nil {
		return err
	}
	s.statuses.Forget(w.Pod.UID)
	return nil
}

// republish shows what a sync has brought about. What it cannot see now the next
// sync will.
func (s *syncer) republish(ctx context.Context, w podworkers.Work, observed *pleg.PodStatus, result *pods.Result) (*pleg.PodStatus, status.Result) {
	if result.Acted() && ctx.Err() == nil {
		podworkers.SetStep(ctx, "observing the result")
		if newer, err := s.observer.Observe(ctx, w.Pod.UID, time.Now()); err == nil {
			observed = newer
		}
	}
	return observed, s.publish(w, observed, false)
}

// SyncTerminatingPod stops a pod's containers. It stops what is known first and
// looks afterwards; what the look finds is stopped as well.
func (s *syncer) SyncTerminatingPod(ctx context.Context, w podworkers.Work) error {
	s.parting(w)
	s.probes.StopLivenessAndStartup(w.Pod.UID)
	known, err := s.observer.Get(w.Pod.UID)
	if err != nil || known.ObservedAt.IsZero() {
		if known, err = s.observer.sinceActed(ctx, w.Pod.UID, w.ActedAt); err != nil {
			return err
		}
	}
	s.publish(w, known, false)
	s.save(ctx, w.Pod.UID)
	grace := &w.GracePeriodSeconds
	if w.GraceFromSpec {
		grace = nil
	}
	stopped, err := s.stop(ctx, known, pods.KillRequest{Pod: w.Pod, GraceSeconds: grace})
	if err != nil {
		return err
	}
	s.probes.RemovePod(w.Pod.UID)
	s.publish(w, stopped, true)
	s.save(ctx, w.Pod.UID)
	return nil
}

// SyncTerminatingOrphan stops a pod that only the runtime knows.
func (s *syncer) SyncTerminatingOrphan(ctx context.Context, o podworkers.RuntimePod, actedAt time.Time) error {
	end, err := s.turns.take(ctx, o.UID)
	if err != nil {
		return err
	}
	defer end()
	known, err := s.observer.sinceActed(ctx, o.UID, actedAt)
	if err != nil {
		return err
	}
	s.log.Info("stopping a pod that no source names", "pod", o.Namespace+"/"+o.Name, "uid", o.UID)
	_, err = s.stop(ctx, known, pods.KillRequest{Message: "Stopping a pod that no source names"})
	if err == nil {
		s.tidy() // not after a failure: housekeeping would try again at once, for ever
	}
	return err
}

// stop kills until an observation made afterwards shows that nothing runs.
func (s *syncer) stop(ctx context.Context, known *pleg.PodStatus, r pods.KillRequest) (*pleg.PodStatus, error) {
	const attempts = 3
	for range attempts {
		podworkers.SetStep(ctx, "stopping containers")
		r.Status = known
		var result pods.Result
		s.observer.act(known.UID, func() bool {
			result = s.runtime.KillPod(ctx, r)
			return true
		})
		if err := result.Err(); err != nil {
			s.observer.RequestRelist(known.UID) // part of it may have stopped
			pod := r.Pod
			if pod == nil {
				pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: known.Namespace, Name: known.Name, UID: known.UID}}
			}
			return nil, s.warn(ctx, pod, eventFailedKillPod, err)
		}
		podworkers.SetStep(ctx, "observing the result")
		now, err := s.observer.Observe(ctx, known.UID, time.Now())
		if err != nil {
			return nil, err
		}
		if now.Stopped() {
			return now, nil
		}
		known = now
	}
	return nil, fmt.Errorf("pod %s/%s: %w", known.Namespace, known.Name, errStillRunning)
}

// warn records that something went wrong with a pod, unless it was called off. It
// returns err.
func (s *syncer) warn(ctx context.Context, pod *v1.Pod, reason string, err error) error {
	if ctx.Err() == nil {
		s.event.warn(pod, reason, err)
	}
	return err
}

// SyncTerminatedPod releases what a pod held. A pod that ended by itself keeps
// its containers, for their logs, until its source drops it. One that its source
// has dropped and names again keeps them for the moment: the next pod with the
// UID removes them.
func (s *syncer) SyncTerminatedPod(ctx context.Context, w podworkers.Work) error {
	if s.desired(w.Pod.UID) {
		s.statuses.Terminate(w.Pod)
		s.save(ctx, w.Pod.UID)
		s.kept.add(w.Pod.UID)
		return nil
	}
	observed, err := s.observer.sinceActed(ctx, w.Pod.UID, w.ActedAt)
	if err != nil {
		return err
	}
	if !observed.Stopped() {
		// A call that was given up while the pod started has had its effect now.
		// The pod has had its grace period.
		shortest := int64(1)
		if _, err := s.stop(ctx, observed, pods.KillRequest{Pod: w.Pod, GraceSeconds: &shortest}); err != nil {
			return err
		}
	}
	podworkers.SetStep(ctx, "removing containers and sandboxes")
	end, err := s.turns.take(ctx, w.Pod.UID)
	if err != nil {
		return err
	}
	defer end()
	return s.remove(ctx, w.Pod.UID, w.ActedAt)
}

// errLeft is returned when a look at a removed pod shows something.
var errLeft = errors.New("something of the pod is still there after its removal")

// remove takes everything of a stopped pod away: containers, sandboxes, logs,
// folders. It ends with a look, so that whoever has the UID next does not see
// what was there before.
func (s *syncer) remove(ctx context.Context, uid types.UID, after time.Time) error {
	if err := s.checkpoints.Forget(uid); err != nil {
		return err
	}
	observed, err := s.observer.sinceActed(ctx, uid, after)
	if err != nil {
		return err
	}
	s.observer.act(uid, func() bool {
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
		return fmt.Errorf("pod %s: %w", uid, errLeft)
	}
	if err := s.folders.removePod(uid); err != nil {
		return err
	}
	if err := s.users.Release(uid); err != nil {
		return err
	}
	s.explanations.drop(uid)
	s.checkpoints.Drop(uid)
	s.observer.drop(uid, left.ObservedAt)
	s.kept.drop(uid)
	return nil
}

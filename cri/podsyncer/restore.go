package podsyncer

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/checkpoint"
)

// checkpointSink is the name of the sink that saves statuses for the next agent.
const checkpointSink = "checkpoint"

// restore loads a pod's saved state from an earlier agent. A status in memory belongs to an earlier
// pod with the UID, and is dropped.
func (s *Syncer) restore(pod *v1.Pod) {
	if s.records.State(pod.UID) == checkpoint.StateKept {
		return
	}
	s.statuses.Forget(pod.UID)
	s.probes.RemovePod(pod.UID)
	if record := s.records.Recall(pod.UID); record != nil {
		s.refused(pod, s.statuses.Restore(pod, record.Status))
		s.probes.Restore(pod.UID, record.Probes)
		s.pods.RestoreBackOff(pod, &record.Status, record.HeldBack)
	}
}

// adopt takes over a pod of another agent with its status from Config.Elsewhere, so that its
// readiness stays.
func (s *Syncer) adopt(ctx context.Context, pod *v1.Pod, observed *observed.Pod) {
	if s.cfg.Elsewhere == nil || len(observed.Containers) == 0 || len(pod.Status.ContainerStatuses) > 0 || s.statuses.Get(pod.UID) != nil {
		return
	}
	podworkers.SetStep(ctx, "fetching the status from Config.Elsewhere")
	if known := s.cfg.Elsewhere(ctx, pod); known != nil {
		s.refused(pod, s.statuses.Restore(pod, *known))
		s.probes.Restore(pod.UID, status.Probed(known))
	}
}

// probeAndSave starts the pod's probes and saves its state before a change: an observed end is on
// the disk before the runtime forgets it. Invalid probes do not delay containers; SyncPod returns
// their error at its end.
func (s *Syncer) probeAndSave(ctx context.Context, pod *v1.Pod) {
	_ = s.probes.AddPod(pod)
	s.save(ctx, pod.UID)
}

// save waits until the pod's state is on the disk. A full disk stops no pod: a failed write is
// logged and repeated later.
func (s *Syncer) save(ctx context.Context, uid types.UID) {
	_ = s.statuses.Flush(ctx, checkpointSink, uid)
}

// restoreOrDropped restores the state of a pod whose end begins, and reports whether its record is
// to be forgotten. A static pod that is stopped because its source dropped it has no successor: the
// next pod with its UID starts without state. The end of every other pod is published and saved.
func (s *Syncer) restoreOrDropped(w podworkers.Work) (dropped bool) {
	uid := w.Pod.UID
	switch s.records.State(uid) {
	case checkpoint.StateForgotten:
		return true
	case checkpoint.StateUnseen:
		s.restore(w.Pod)
	case checkpoint.StateKept:
	}
	last := s.statuses.Get(uid)
	ended := last != nil && podfacts.IsTerminalPhase(last.Phase)
	return !ended && !w.Evicted && w.Status == nil && w.Pod.DeletionTimestamp == nil
}

// forget removes a pod's record. The pod's removal repeats a failed removal.
func (s *Syncer) forget(uid types.UID) {
	if s.records.State(uid) == checkpoint.StateForgotten {
		return
	}
	if err := s.records.Forget(uid); err != nil {
		s.log.Warn("removing the saved record of a terminating pod failed", "podUID", uid, "err", err)
	}
}

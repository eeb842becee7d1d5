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

// checkpointSink names the sink that keeps what the next agent has to know.
const checkpointSink = "checkpoint"

// restore begins a pod's life under this agent with what an earlier one knew of it.
// A status that is there already is that of an earlier pod with the UID.
func (s *Syncer) restore(pod *v1.Pod) {
	if s.records.State(pod.UID) == checkpoint.Kept {
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

// adopt goes on with a pod that another agent has run, with what is known of it elsewhere:
// it stays as ready as it was.
func (s *Syncer) adopt(ctx context.Context, pod *v1.Pod, observed *observed.Pod) {
	if s.cfg.Elsewhere == nil || len(observed.Containers) == 0 || len(pod.Status.ContainerStatuses) > 0 || s.statuses.Get(pod.UID) != nil {
		return
	}
	podworkers.SetStep(ctx, "asking what is known of it elsewhere")
	if known := s.cfg.Elsewhere(ctx, pod); known != nil {
		s.refused(pod, s.statuses.Restore(pod, *known))
		s.probes.Restore(pod.UID, status.Probed(known))
	}
}

// probeAndSave has a pod probed, and saves what is known of it before something of it
// changes: an end that was seen is on the disk before the runtime forgets it. What is
// wrong with a probe does not keep containers from starting: SyncPod tells it when it
// has done the rest.
func (s *Syncer) probeAndSave(ctx context.Context, pod *v1.Pod) {
	_ = s.probes.AddPod(pod)
	s.save(ctx, pod.UID)
}

// save waits until what is known of a pod is on the disk. A disk that is full stops no
// pod: what cannot be written is in the log, and written later.
func (s *Syncer) save(ctx context.Context, uid types.UID) {
	_ = s.statuses.Flush(ctx, checkpointSink, uid)
}

// restoreOrDropped restores what is known of a pod whose end begins, and tells whether
// its record is to be forgotten. A static pod that is stopped before its time, since its
// source has dropped it, has no successor: the next pod with its UID begins with
// nothing. All others have an end that is to be told.
func (s *Syncer) restoreOrDropped(w podworkers.Work) (dropped bool) {
	uid := w.Pod.UID
	switch s.records.State(uid) {
	case checkpoint.Forgotten:
		return true
	case checkpoint.Unseen:
		s.restore(w.Pod)
	case checkpoint.Kept:
	}
	last := s.statuses.Get(uid)
	ended := last != nil && podfacts.IsTerminalPhase(last.Phase)
	return !ended && !w.Evicted && w.Status == nil && w.Pod.DeletionTimestamp == nil
}

// forget removes a pod's record. What cannot be removed now is removed with the pod.
func (s *Syncer) forget(uid types.UID) {
	if s.records.State(uid) == checkpoint.Forgotten {
		return
	}
	if err := s.records.Forget(uid); err != nil {
		s.log.Warn("cannot remove what was kept of a pod that is being stopped", "podUID", uid, "err", err)
	}
}

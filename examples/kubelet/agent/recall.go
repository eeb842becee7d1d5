package agent

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/podworkers"
)

// recall begins a pod's life under this agent with what an earlier one knew of it.
// A status that is there already is that of an earlier pod with the UID.
func (s *syncer) recall(pod *v1.Pod) {
	if s.memory.life(pod.UID) == remembered {
		return
	}
	s.statuses.Forget(pod.UID)
	s.probes.RemovePod(pod.UID)
	if record := s.memory.recall(pod.UID); record != nil {
		s.statuses.Restore(pod, record.Status)
		s.probes.Restore(pod.UID, record.Probes)
	}
}

// remember has a pod probed, and keeps what is known of it before something of it
// changes: an end that was seen is on the disk before the runtime forgets it. What is
// wrong with a probe does not keep containers from starting: SyncPod tells it when it
// has done the rest.
func (s *syncer) remember(pod *v1.Pod) {
	_ = s.probes.AddPod(pod)
	s.memory.save(pod.UID)
}

// parting is what the begin of a pod's end means to its memory. A static pod that is
// stopped before its time, since its source has dropped it, has no successor: the
// next pod with its UID begins with nothing. All others have an end that is to be
// told. A memory that cannot be removed now is removed with the pod's folder: it does
// not keep the pod from being stopped.
func (s *syncer) parting(w podworkers.Work) {
	uid := w.Pod.UID
	switch s.memory.life(uid) {
	case forgotten:
		return
	case unseen:
		s.recall(w.Pod)
	case remembered:
	}
	status := s.statuses.Get(uid)
	ended := status != nil && (status.Phase == v1.PodSucceeded || status.Phase == v1.PodFailed)
	if ended || w.Evicted || w.Status != nil || w.Pod.DeletionTimestamp != nil {
		return
	}
	if err := s.memory.forget(uid); err != nil {
		s.log.Warn("cannot remove what was kept of a pod that is being stopped", "uid", uid, "err", err)
	}
}

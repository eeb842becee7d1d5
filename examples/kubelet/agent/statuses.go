package agent

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// statuses keeps the newest computed status of every pod, in memory. It is what
// /pods shows, and the "previous status" of the next computation.
type statuses struct {
	mu sync.Mutex
	m  map[types.UID]entry
}

type entry struct {
	pod    *v1.Pod
	status v1.PodStatus
}

func newStatuses() *statuses { return &statuses{m: map[types.UID]entry{}} }

// get returns the pod's status, nil when none was computed yet. It is shared and
// must not be changed.
func (s *statuses) get(uid types.UID) *v1.PodStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.m[uid]
	if !ok {
		return nil
	}
	return &e.status
}

// set stores the status of a pod.
func (s *statuses) set(pod *v1.Pod, status v1.PodStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m[pod.UID] = entry{pod: pod, status: status}
}

// change replaces the status of a pod, if it has one, by what follows from it.
// The status that is handed in is shared: next must not change it.
func (s *statuses) change(uid types.UID, next func(v1.PodStatus) v1.PodStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.m[uid]; ok {
		e.status = next(e.status)
		s.m[uid] = e
	}
}

// drop forgets the status of a pod.
func (s *statuses) drop(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, uid)
}

// keep drops every pod for which wanted says no.
func (s *statuses) keep(wanted func(types.UID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid := range s.m {
		if !wanted(uid) {
			delete(s.m, uid)
		}
	}
}

// all returns every pod that has a status.
func (s *statuses) all() map[types.UID]*v1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[types.UID]*v1.Pod, len(s.m))
	for uid, e := range s.m {
		out[uid] = e.pod
	}
	return out
}

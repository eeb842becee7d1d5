package manager

const maxRefreshing = 16

// refreshSlots bounds the number of concurrent refreshes over all pods, because each reads
// objects.
type refreshSlots struct {
	used    int
	waiting []*volumeState
}

func (s *refreshSlots) full(v *volumeState) bool {
	if s.used < maxRefreshing {
		return false
	}
	if !v.queued {
		v.queued = true
		s.waiting = append(s.waiting, v)
	}
	return true
}

// free frees a slot and returns the volumes that no longer wait.
func (s *refreshSlots) free() []*volumeState {
	s.used--
	n := min(max(maxRefreshing-s.used, 0), len(s.waiting))
	out := s.waiting[:n]
	s.waiting = s.waiting[n:]
	for _, v := range out {
		v.queued = false
	}
	return out
}

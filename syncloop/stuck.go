package syncloop

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The pauses until the handler is called again for a pod on which it panicked.
const (
	stuckPauseMin = time.Second
	stuckPauseMax = 30 * time.Second
)

// stuck is what a handler or the source of pods panicked on. It is tried again
// from time to time, so that nothing is lost, and each pod by itself, so that no
// other pod suffers. It is bounded by the number of pods.
type stuck struct {
	changes map[types.UID][]stuckChange
	order   []types.UID // the keys of changes, in the order in which they came
	syncs   map[types.UID]Kinds
	sources map[string]bool // whose changes could not be asked for
	pending map[string]bool // not handled yet, since something of them is stuck

	pause time.Duration
	at    time.Time // of the next attempt; zero when there is nothing to try
}

// stuckChange is a change of one pod, and the source that was asked for it.
type stuckChange struct {
	Change
	source string
}

func newStuck() *stuck {
	return &stuck{
		changes: map[types.UID][]stuckChange{}, syncs: map[types.UID]Kinds{}, sources: map[string]bool{},
		pending: map[string]bool{},
		pause:   stuckPauseMin,
	}
}

// size counts what is stuck.
func (s *stuck) size() int { return len(s.changes) + len(s.syncs) + len(s.sources) }

// holds tells whether a change of the pod waits, so that newer ones must too.
func (s *stuck) holds(uid types.UID) bool { return len(s.changes[uid]) > 0 }

// holdsOf tells whether something of a source waits, so that it is not handled.
func (s *stuck) holdsOf(source string) bool {
	if s.sources[source] {
		return true
	}
	for _, queue := range s.changes {
		if slices.ContainsFunc(queue, func(c stuckChange) bool { return c.source == source }) {
			return true
		}
	}
	return false
}

// push adds a change of one pod.
func (s *stuck) push(c stuckChange, now time.Time) {
	uid := c.Pods[0].UID
	if !s.holds(uid) {
		s.order = append(s.order, uid)
	}
	s.changes[uid] = fold(s.changes[uid], c)
	s.plan(now)
}

// fold adds a change to those of the same pod that wait. At most two are left: a
// removal, and what came after it.
func fold(queue []stuckChange, c stuckChange) []stuckChange {
	if c.Op == OpRemove {
		return []stuckChange{c} // whatever was to happen to the pod before
	}
	if len(queue) == 0 || queue[len(queue)-1].Op == OpRemove {
		return append(queue, c)
	}
	last := &queue[len(queue)-1]
	for _, op := range []Op{OpAdd, OpDelete, OpUpdate} {
		if last.Op == op || c.Op == op {
			c.Op = op
			break
		}
	}
	*last = c
	return queue
}

// handled drops the first n changes of a pod.
func (s *stuck) handled(uid types.UID, n int) {
	if s.changes[uid] = s.changes[uid][n:]; len(s.changes[uid]) > 0 {
		return
	}
	delete(s.changes, uid)
	s.order = slices.DeleteFunc(s.order, func(other types.UID) bool { return other == uid })
}

func (s *stuck) pushSync(sync Sync, now time.Time) {
	s.syncs[sync.UID] |= sync.Kinds
	s.plan(now)
}

func (s *stuck) pushSource(source string, now time.Time) {
	s.sources[source] = true
	s.plan(now)
}

// plan sees to it that there is a next attempt.
func (s *stuck) plan(now time.Time) {
	if s.at.IsZero() {
		s.at = now.Add(s.pause)
	}
}

// due tells whether it is time for the next attempt.
func (s *stuck) due(now time.Time) bool { return !s.at.IsZero() && !now.Before(s.at) }

// attempted ends an attempt: what is still stuck waits for longer.
func (s *stuck) attempted(now time.Time) {
	s.at = time.Time{}
	if s.size() == 0 {
		s.pause = stuckPauseMin
		return
	}
	s.pause = min(2*s.pause, stuckPauseMax)
	s.plan(now)
}

// takeSyncs removes and returns the syncs, by UID.
func (s *stuck) takeSyncs() []Sync {
	var syncs []Sync
	for _, uid := range slices.Sorted(maps.Keys(s.syncs)) {
		syncs = append(syncs, Sync{UID: uid, Kinds: s.syncs[uid]})
	}
	clear(s.syncs)
	return syncs
}

// takeSources removes and returns the sources, by name.
func (s *stuck) takeSources() []string {
	names := slices.Sorted(maps.Keys(s.sources))
	clear(s.sources)
	return names
}

package podsyncer

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// nobody is the UID of no pod, which is gone as soon as it is known which pods
// should be there.
const nobody types.UID = ""

// named tells whether a source names the pod.
func (s *Syncer) named(uid types.UID) bool { return s.desired.Get(uid) != nil }

// wanted tells whether a pod is named or has a worker.
func (s *Syncer) wanted(uid types.UID) bool {
	return s.named(uid) || s.workers.State(uid).State != podworkers.StateUnknown
}

// gone tells whether nobody needs anything of a pod any more.
func (s *Syncer) gone(uid types.UID) bool {
	return s.cfg.Handler.Sources.Ready() && !s.named(uid) && s.workers.State(uid).ShouldBeFinished()
}

// releasable tells whether everything of a pod can be released: it is gone, and
// nothing of it runs.
func (s *Syncer) releasable(uid types.UID) bool {
	if !s.observer.Complete() || !s.gone(uid) {
		return false
	}
	observed, err := s.observer.Get(uid)
	return err == nil && observed.Stopped()
}

// tryTurn takes the turn of a pod that may be gone, if nobody has it. It is asked for
// every pod at each housekeeping: most are named.
func (s *Syncer) tryTurn(uid types.UID) (end func(), ok bool) {
	if s.named(uid) {
		return nil, false
	}
	end, other := s.turns.try(uid)
	return end, other == nil
}

// leftInRuntime are the pods of which the runtime has something that has stopped, and
// those that have ended and kept what they left, gone or not.
func (s *Syncer) leftInRuntime() []types.UID {
	uids := s.ended.uids()
	for _, p := range s.observer.Pods() {
		if p.Stopped() {
			uids = append(uids, p.UID)
		}
	}
	return uids
}

// lookPeriod is how often it is looked at what all pods have on the node though nothing says
// that anything is left: somebody else may have put it there.
const lookPeriod = 10 * time.Second

// lookout decides at which housekeeping the Releaser looks for leftovers, which takes several
// readings of folders for each stage: not while all pods stay what they were.
type lookout struct {
	mu     sync.Mutex
	looked time.Time
	named  map[types.UID]bool // then
}

// isDue tells whether something may be left that was not there at the last look, or that could
// not be released then.
func (l *lookout) isDue(s *Syncer, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	named := map[types.UID]bool{}
	for _, pod := range s.desired.Pods() {
		named[pod.UID] = true
	}
	left := s.leftInRuntime()
	for _, pod := range s.releaser.Leftovers() {
		left = append(left, pod.UID)
	}
	due := now.Sub(l.looked) >= lookPeriod || !maps.Equal(named, l.named) ||
		slices.ContainsFunc(left, func(uid types.UID) bool { return !s.named(uid) })
	if due {
		l.looked, l.named = now, named
	}
	return due
}

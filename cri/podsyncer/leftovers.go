package podsyncer

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/podworkers"
)

// noPod is the UID of no pod. It counts as unused as soon as all sources are ready.
const noPod types.UID = ""

// hasSource reports whether a source names the pod.
func (s *Syncer) hasSource(uid types.UID) bool { return s.desired.Get(uid) != nil }

// wanted reports whether a source names the pod or a worker has it.
func (s *Syncer) wanted(uid types.UID) bool {
	return s.hasSource(uid) || s.workers.State(uid).State != podworkers.StateUnknown
}

// unused reports whether the pod is unused: all sources are ready, none names it, and its worker has
// finished.
func (s *Syncer) unused(uid types.UID) bool {
	return s.cfg.Handler.Sources.Ready() && !s.hasSource(uid) && s.workers.State(uid).ShouldBeFinished()
}

// releasable reports whether all of a pod can be released: it is unused and has stopped.
func (s *Syncer) releasable(uid types.UID) bool {
	if !s.observer.Complete() || !s.unused(uid) {
		return false
	}
	observed, err := s.observer.Get(uid)
	return err == nil && observed.Stopped()
}

// tryLock locks a pod that may be unused, if no other caller has it locked. Housekeeping calls it for
// every pod; most are named, so that check comes first.
func (s *Syncer) tryLock(uid types.UID) (end func(), ok bool) {
	if s.hasSource(uid) {
		return nil, false
	}
	end, other := s.podLocks.try(uid)
	return end, other == nil
}

// leftInRuntime returns the pods whose containers and sandboxes have all stopped, and the ended
// pods that kept their containers.
func (s *Syncer) leftInRuntime() []types.UID {
	uids := s.ended.uids()
	for _, p := range s.observer.Pods() {
		if p.Stopped() {
			uids = append(uids, p.UID)
		}
	}
	return uids
}

// leftoverScanPeriod is the period of full scans for leftovers without a hint. They find leftovers that
// another program made.
const leftoverScanPeriod = 10 * time.Second

// leftoverScan decides whether housekeeping wakes the Releaser, whose scan reads several folders for
// each stage. It skips the scan while the set of pods is unchanged.
type leftoverScan struct {
	mu      sync.Mutex
	scanned time.Time
	named   map[types.UID]bool // at the last scan
}

// isDue reports whether there may be new leftovers since the last scan, or leftovers that could not
// be released then.
func (l *leftoverScan) isDue(s *Syncer, now time.Time) bool {
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
	due := now.Sub(l.scanned) >= leftoverScanPeriod || !maps.Equal(named, l.named) ||
		slices.ContainsFunc(left, func(uid types.UID) bool { return !s.hasSource(uid) })
	if due {
		l.scanned, l.named = now, named
	}
	return due
}

package agent

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/podwright/podwright/cri/pods/garbage"
	"k8s.io/apimachinery/pkg/types"
)

// janitor removes what pods have left behind: containers and sandboxes of pods
// that are gone, their folders, and dead containers beyond those that are kept.
// It works beside the sync loop, which only wakes it, so that a slow runtime
// keeps no pod waiting.
type janitor struct {
	log      *slog.Logger
	garbage  *garbage.Collector
	observer *observer
	folders  folders
	// gone tells whether nobody needs anything of a pod any more, unneeded whether
	// nobody needs its containers.
	gone, unneeded func(types.UID) bool
	// sourcesReady tells whether it is known which pods should be there.
	sourcesReady func() bool
	remove       func(ctx context.Context, uid types.UID, after time.Time) error
	// policy says which dead containers are kept.
	policy  garbage.Policy
	turns   *turns
	kept    *uidSet
	woken   chan struct{} // capacity 1
	waiting sync.WaitGroup

	mu sync.Mutex
	// prunable are the pods with dead containers; true: none of them is needed.
	prunable map[types.UID]bool
	// postponed are those of them that somebody waits for to have no worker.
	postponed map[types.UID]bool
}

// collectPeriod is how often dead containers, logs and links are collected.
const collectPeriod = time.Minute

// nobody is the UID of no pod, which is gone as soon as it is known which pods
// should be there.
const nobody types.UID = ""

// wake makes the janitor look around. It never blocks.
func (j *janitor) wake() {
	select {
	case j.woken <- struct{}{}:
	default:
	}
}

// prune has the dead containers of a pod removed that are not needed any more:
// all, or all but the newest of each name. It never blocks.
func (j *janitor) prune(_ context.Context, uid types.UID, all bool) {
	j.mu.Lock()
	j.prunable[uid] = j.prunable[uid] || all
	j.mu.Unlock()
	j.wake()
}

// pruneAll does what prune was asked for. What fails is done by the collection.
func (j *janitor) pruneAll(ctx context.Context) {
	j.mu.Lock()
	prunable := j.prunable
	j.prunable = map[types.UID]bool{}
	j.mu.Unlock()
	for uid, all := range prunable {
		end, other := j.turns.try(uid)
		if other != nil {
			j.postpone(ctx, uid, all, other)
			continue
		}
		if err := j.pruneOne(ctx, uid, all); err != nil && ctx.Err() == nil {
			j.log.Warn("cannot remove dead containers; the next collection will", "uid", uid, "err", err)
		}
		end()
	}
}

// pruneOne removes dead containers of a pod that nobody else works on.
func (j *janitor) pruneOne(ctx context.Context, uid types.UID, all bool) error {
	observed, err := j.observer.Get(uid)
	if err != nil {
		return err
	}
	// Between the wish and now a pod with the UID may have come back, whose
	// containers are needed. What was observed before is not its.
	all = all && j.unneeded(uid)
	if !all && (j.policy.MinAge > 0 || j.policy.MaxPerContainer < 0) {
		return nil // the collection knows how old they are
	}
	return j.garbage.CleanDeadContainers(ctx, garbage.CleanRequest{Status: observed, Keep: j.policy.MaxPerContainer, All: all})
}

// postpone prunes a pod when the turn of whoever works on it has ended: the two
// would be in each other's way, and what the worker starts meanwhile may have a
// log of the same name.
func (j *janitor) postpone(ctx context.Context, uid types.UID, all bool, other <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.prunable[uid] = j.prunable[uid] || all
	if j.postponed[uid] {
		return
	}
	j.postponed[uid] = true
	j.waiting.Go(func() {
		select {
		case <-other:
		case <-ctx.Done():
		}
		j.mu.Lock()
		delete(j.postponed, uid)
		j.mu.Unlock()
		j.wake()
	})
}

// Run cleans up until ctx ends.
func (j *janitor) Run(ctx context.Context) error {
	defer j.waiting.Wait()
	collect := time.NewTicker(collectPeriod)
	defer collect.Stop()
	failing := map[types.UID]failure{}
	collected := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-j.woken:
			j.pruneAll(ctx)
			j.removeGone(ctx, failing)
			// An agent that was killed may have left logs of pods that nothing
			// else reminds of, and one that is killed again and again would never
			// come to the end of a period.
			if !collected && j.observer.Complete() && j.gone(nobody) {
				collected = true
				j.collect(ctx)
			}
		case <-collect.C:
			j.collect(ctx)
		}
	}
}

// failure is a removal that did not work.
type failure struct {
	text string
	at   time.Time
}

// removeGone removes pods that are gone. What fails is logged when it changes and
// tried again later, after a rest: the janitor is woken often.
func (j *janitor) removeGone(ctx context.Context, failing map[types.UID]failure) {
	leftovers := j.leftovers()
	maps.DeleteFunc(failing, func(uid types.UID, _ failure) bool { return !leftovers[uid] })
	for uid := range leftovers {
		if ctx.Err() != nil {
			return
		}
		if f, failed := failing[uid]; failed && time.Since(f.at) < clearing {
			continue
		}
		removed, err := j.removeOne(ctx, uid)
		if !removed && err == nil {
			continue
		}
		if err == nil {
			delete(failing, uid)
			j.log.Info("removed what a pod had left", "uid", uid)
			continue
		}
		if text := err.Error(); ctx.Err() == nil && failing[uid].text != text {
			j.log.Error("cannot remove what a pod has left; trying again", "uid", uid, "err", err)
		}
		failing[uid] = failure{text: err.Error(), at: time.Now()}
	}
}

// removeOne removes a pod if it is gone, and keeps its UID from starting again
// meanwhile.
func (j *janitor) removeOne(ctx context.Context, uid types.UID) (removed bool, err error) {
	end, other := j.turns.try(uid)
	if other != nil {
		return false, nil // it has a worker
	}
	defer end()
	if !j.gone(uid) {
		return false, nil
	}
	return true, j.remove(ctx, uid, time.Now())
}

// leftovers are stopped pods of the runtime, pods with a folder, and those that
// have kept what they left, gone or not.
func (j *janitor) leftovers() map[types.UID]bool {
	out := map[types.UID]bool{}
	if !j.observer.Complete() {
		return out
	}
	uids, err := j.folders.listPods()
	if err != nil {
		j.log.Error("cannot list pod folders", "err", err)
	}
	for _, uid := range append(uids, j.kept.all()...) {
		out[uid] = true
	}
	for _, p := range j.observer.Pods() {
		if p.Stopped() {
			out[p.UID] = true
		} else {
			delete(out, p.UID)
		}
	}
	return out
}

func (j *janitor) collect(ctx context.Context) {
	j.log.Debug("collecting garbage")
	held := map[types.UID]bool{}
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	err := j.garbage.Collect(ctx, garbage.Request{
		Policy:       j.policy,
		SourcesReady: j.sourcesReady(),
		// A sync notes how a container has ended before it ends itself.
		Busy: func(uid types.UID) bool {
			end, other := j.turns.try(uid)
			if other == nil {
				end()
			}
			return other != nil
		},
		// What is found to be gone must not come back before it was removed.
		ContentRemovable: func(uid types.UID) bool {
			if held[uid] {
				return true
			}
			end, other := j.turns.try(uid)
			if other != nil {
				return false
			}
			if !j.gone(uid) {
				end()
				return false
			}
			held[uid] = true
			ends = append(ends, end)
			return true
		},
	})
	if err != nil && ctx.Err() == nil {
		j.log.Error("garbage collection", "err", err)
	}
}

package podsyncer

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/internal/span"
	"github.com/podwright/podwright/podworkers"
)

// collectPeriod is how often dead containers, logs and links are collected.
const collectPeriod = time.Minute

// collector collects garbage of the runtime: dead containers beyond those that are
// kept, and sandboxes, logs and links of pods that are gone.
type collector struct {
	s *Syncer

	woken run.Signal
}

func newCollector(s *Syncer) *collector { return &collector{s: s, woken: run.NewSignal()} }

// wake has the collector see whether the first collection can be made.
func (c *collector) wake() { c.woken.Wake() }

// Run collects every collectPeriod until ctx ends, and the first time as soon as it
// is known which pods are gone: an agent that was killed may have left logs of pods
// that nothing else reminds of, and one that is killed again and again would never
// come to the end of a period.
func (c *collector) Run(ctx context.Context) error {
	period := time.NewTicker(collectPeriod)
	defer period.Stop()
	first := c.woken
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-first:
			if !c.s.observer.Complete() || !c.s.gone(nobody) {
				continue
			}
			first = nil
		case <-period.C:
		}
		c.collect(ctx)
	}
}

func (c *collector) collect(ctx context.Context) {
	if err := c.s.collectGarbage(ctx, nil); err != nil && ctx.Err() == nil {
		c.s.log.Error("garbage collection", "err", err)
	}
}

// RemoveDeadContainers collects garbage at once, as happens once a minute, and with it all
// containers and sandboxes of pods that have ended though they still have a name: for a node
// that is short of disk. Before all sources of pods are ready nothing of pods goes.
func (s *Syncer) RemoveDeadContainers(ctx context.Context) error {
	return s.collectGarbage(ctx, func(uid types.UID) bool {
		worker := s.workers.State(uid)
		return worker.State != podworkers.StateUnknown && worker.RuntimeMayBeRemoved()
	})
}

func (s *Syncer) collectGarbage(ctx context.Context, ended func(types.UID) bool) error {
	s.log.Debug("collecting garbage")
	held := &heldTurns{s: s}
	defer held.end()
	request := garbage.Request{
		Policy:       s.cfg.DeadContainers,
		SourcesReady: s.cfg.Handler.Sources.Ready(),
		// A sync notes how a container has ended before it ends itself.
		Busy:             s.turns.busy,
		ContentRemovable: held.take,
		RuntimeRemovable: ended,
	}
	collecting, end := span.Begin(ctx, s.cfg.Span, "Containers/GarbageCollect")
	err := run.Guard("garbage collection", func() error { return s.garbage.Collect(collecting, request) })
	end(err)
	return err
}

// heldTurns are the turns of pods that were found to be gone: they must not come back
// before they were removed.
type heldTurns struct {
	s *Syncer

	ends map[types.UID]func()
}

// take tells whether a pod is gone, and keeps it from coming back. What was saved of
// it goes before its containers: the next pod with the UID is another one.
func (h *heldTurns) take(uid types.UID) bool {
	if h.ends[uid] != nil {
		return true
	}
	end, other := h.s.turns.try(uid)
	if other != nil {
		return false
	}
	if !h.s.gone(uid) || h.s.records.Forget(uid) != nil {
		end()
		return false
	}
	if h.ends == nil {
		h.ends = map[types.UID]func(){}
	}
	h.ends[uid] = end
	return true
}

func (h *heldTurns) end() {
	for _, end := range h.ends {
		end()
	}
}

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

// collectPeriod is the period of garbage collection: dead containers, logs and links.
const collectPeriod = time.Minute

// collector removes dead containers beyond the retained ones, and sandboxes, logs and links of
// removed pods.
type collector struct {
	s *Syncer

	woken run.Signal
}

func newCollector(s *Syncer) *collector { return &collector{s: s, woken: run.NewSignal()} }

// wake makes Run check whether the first collection is possible.
func (c *collector) wake() { c.woken.Wake() }

// Run collects every collectPeriod until ctx is done. The first collection runs as soon as all
// sources are ready and the runtime was observed: a killed agent may have left logs that only this
// collection finds, and an agent in a crash loop would never reach the end of a period.
func (c *collector) Run(ctx context.Context) error {
	period := time.NewTicker(collectPeriod)
	defer period.Stop()
	first := c.woken
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-first:
			if !c.s.observer.Complete() || !c.s.unused(noPod) {
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
		c.s.log.Error("garbage collection failed", "err", err)
	}
}

// RemoveDeadContainers collects garbage at once instead of at the next minute. It also removes all
// containers and sandboxes of ended pods that a source still names, to free disk space. It removes
// no pods before all sources are ready.
func (s *Syncer) RemoveDeadContainers(ctx context.Context) error {
	return s.collectGarbage(ctx, func(uid types.UID) bool {
		worker := s.workers.State(uid)
		return worker.State != podworkers.StateUnknown && worker.RuntimeMayBeRemoved()
	})
}

func (s *Syncer) collectGarbage(ctx context.Context, ended func(types.UID) bool) error {
	s.log.Debug("collecting garbage")
	held := &removalLocks{s: s}
	defer held.end()
	request := garbage.Request{
		Policy:       s.cfg.DeadContainers,
		SourcesReady: s.cfg.Handler.Sources.Ready(),
		// A sync records the end of a container before it ends itself.
		Busy:             s.podLocks.busy,
		ContentRemovable: held.take,
		RuntimeRemovable: ended,
	}
	collecting, end := span.Begin(ctx, s.cfg.Span, "Containers/GarbageCollect")
	err := run.Guard("garbage collection", func() error { return s.garbage.Collect(collecting, request) })
	end(err)
	return err
}

// removalLocks are the locks of removed pods. They keep a pod from returning during its removal.
type removalLocks struct {
	s *Syncer

	ends map[types.UID]func()
}

// take reports whether a pod is unused, and locks it against returning. It forgets the saved state
// before the containers go, because the next pod with the UID is a different pod.
func (h *removalLocks) take(uid types.UID) bool {
	if h.ends[uid] != nil {
		return true
	}
	end, other := h.s.podLocks.try(uid)
	if other != nil {
		return false
	}
	if !h.s.unused(uid) || h.s.records.Forget(uid) != nil {
		end()
		return false
	}
	if h.ends == nil {
		h.ends = map[types.UID]func(){}
	}
	h.ends[uid] = end
	return true
}

func (h *removalLocks) end() {
	for _, end := range h.ends {
		end()
	}
}

package podsyncer

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/garbage"
	"github.com/podwright/podwright/internal/run"
)

// pruner removes dead containers of pods that stay as soon as newer ones replace them: all of them,
// or all but the newest of each name.
type pruner struct {
	s *Syncer

	woken   run.Signal
	waiting sync.WaitGroup

	mu sync.Mutex
	// due are the pods with dead containers; true removes all of them.
	due map[types.UID]bool
	// postponed are the pods that wait for the end of another operation.
	postponed map[types.UID]bool
}

func newPruner(s *Syncer) *pruner {
	return &pruner{s: s, woken: run.NewSignal(), due: map[types.UID]bool{}, postponed: map[types.UID]bool{}}
}

// add requests the removal of a pod's dead containers. It never blocks.
func (p *pruner) add(uid types.UID, all bool) {
	p.mu.Lock()
	p.due[uid] = p.due[uid] || all
	p.mu.Unlock()
	p.woken.Wake()
}

func (p *pruner) Run(ctx context.Context) error {
	defer p.waiting.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.woken:
			p.pruneDue(ctx)
		}
	}
}

// pruneDue prunes the due pods. The collection repeats failed removals.
func (p *pruner) pruneDue(ctx context.Context) {
	p.mu.Lock()
	due := p.due
	p.due = map[types.UID]bool{}
	p.mu.Unlock()
	for uid, all := range due {
		end, other := p.s.podLocks.try(uid)
		if other != nil {
			p.postpone(ctx, uid, all, other)
			continue
		}
		err := run.Guard("removing dead containers", func() error { return p.prune(ctx, uid, all) })
		if err != nil && ctx.Err() == nil {
			p.s.log.Warn("removing dead containers failed; the next garbage collection retries", "podUID", uid, "err", err)
		}
		end()
	}
}

// prune removes dead containers of a pod. The caller has exclusive access to it.
func (p *pruner) prune(ctx context.Context, uid types.UID, all bool) error {
	observed, err := p.s.observer.Get(uid)
	if err != nil {
		return err
	}
	// A pod with the UID may have returned since the request and needs its containers. The older
	// observation is not about it.
	all = all && p.s.workers.State(uid).ContainersMayBeRemoved()
	policy := p.s.cfg.DeadContainers
	if !all && (policy.MinAge > 0 || policy.MaxPerContainer < 0) {
		return nil // the collection checks their age
	}
	return p.s.garbage.CleanDeadContainers(ctx, garbage.CleanRequest{Status: observed, Keep: policy.MaxPerContainer, All: all})
}

// postpone prunes a pod after the end of the operation in progress. Both would disturb each other,
// and a container started meanwhile may have a log of the same name.
func (p *pruner) postpone(ctx context.Context, uid types.UID, all bool, other <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due[uid] = p.due[uid] || all
	if p.postponed[uid] {
		return
	}
	p.postponed[uid] = true
	p.waiting.Go(func() {
		select {
		case <-other:
		case <-ctx.Done():
		}
		p.mu.Lock()
		delete(p.postponed, uid)
		p.mu.Unlock()
		p.woken.Wake()
	})
}

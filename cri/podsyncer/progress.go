package podsyncer

import (
	"context"
	"sync"
	"time"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/podworkers"
)

const (
	// progressAfter is the shortest duration of a sync that publishes before its end. Most syncs
	// end earlier.
	progressAfter = 2 * time.Second
	// progressEvery is the period of further publications.
	progressEvery = time.Second
)

// progress publishes a pod's status during a sync or a stop. An observation older than the
// published one is dropped, because it would undo newer facts.
type progress struct {
	s *Syncer
	w podworkers.Work
	// stopping is true for a pod that is being stopped. It gets no new probes.
	stopping bool

	mu     sync.Mutex
	newest time.Time // time of the last published observation
}

// show calls publish for an observation made at the given time, unless a newer one is published.
func (p *progress) show(at time.Time, publish func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.After(p.newest) {
		p.newest = at
		publish()
	}
}

// sandboxReady publishes that the sandbox is ready, before images are pulled and containers start.
func (p *progress) sandboxReady([]string) {
	now := time.Now()
	p.show(now, func() { p.s.publishReadyToStart(p.w.Pod, now) })
}

// follow publishes the pod's state during a long sync or stop. While one container pulls its image
// or runs its postStart handler, others run already and are probed. While one container stops,
// others have stopped and are not ready. The returned function stops follow and waits for its end.
func (p *progress) follow(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	looked := time.Now()
	pause := progressAfter
	if p.stopping {
		pause = progressEvery
	}
	var following sync.WaitGroup
	following.Go(func() {
		for ; run.Sleep(ctx, pause); pause = progressEvery {
			observed := p.s.observer.whileChanging(ctx, p.w.Pod.UID, looked)
			if observed == nil {
				continue
			}
			looked = observed.ObservedAt
			p.show(looked, func() {
				p.s.publish(p.w, observed, false)
				if !p.stopping {
					_ = p.s.probes.AddPod(p.w.Pod) // SyncPod returns probe errors
				}
			})
		}
	})
	return func() {
		cancel()
		following.Wait()
	}
}

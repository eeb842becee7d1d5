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

// progress publishes a pod's status during a sync. An observation older than the published one
// is dropped, because it would undo newer facts.
type progress struct {
	s *Syncer
	w podworkers.Work

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

// follow publishes the pod's state during a long sync: while one container pulls its image or runs
// its postStart handler, others run already and are probed. The returned function stops follow and
// waits for its end.
func (p *progress) follow(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	looked := time.Now()
	var following sync.WaitGroup
	following.Go(func() {
		for pause := progressAfter; run.Sleep(ctx, pause); pause = progressEvery {
			observed := p.s.observer.whileChanging(ctx, p.w.Pod.UID, looked)
			if observed == nil {
				continue
			}
			looked = observed.ObservedAt
			p.show(looked, func() {
				p.s.publish(p.w, observed, false)
				_ = p.s.probes.AddPod(p.w.Pod) // SyncPod returns probe errors
			})
		}
	})
	return func() {
		cancel()
		following.Wait()
	}
}

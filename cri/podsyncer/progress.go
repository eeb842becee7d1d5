package podsyncer

import (
	"context"
	"sync"
	"time"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/podworkers"
)

const (
	// progressAfter is how long a sync takes at least of which something is published
	// before it has ended. Most have ended by then.
	progressAfter = 2 * time.Second
	// progressEvery is how often something is published from then on, if there is
	// something.
	progressEvery = time.Second
)

// progress is what a sync shows of its pod before it has ended. An observation from before
// what was shown last says nothing any more: it would unmake it.
type progress struct {
	s *Syncer
	w podworkers.Work

	mu     sync.Mutex
	newest time.Time // of what is shown
}

// show publishes what was found out at a time, unless something newer is shown.
func (p *progress) show(at time.Time, publish func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.After(p.newest) {
		p.newest = at
		publish()
	}
}

// sandboxReady says that the sandbox is there, without waiting for what is pulled and
// started in it.
func (p *progress) sandboxReady([]string) {
	now := time.Now()
	p.show(now, func() { p.s.publishReadyToStart(p.w.Pod, now) })
}

// follow publishes what becomes of the pod while the sync goes on for long: while the
// image of one container is pulled, or its postStart handler runs, others run already and
// are probed. The function that it returns ends that, and waits for the end.
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
				_ = p.s.probes.AddPod(p.w.Pod) // SyncPod tells what is wrong with a probe
			})
		}
	})
	return func() {
		cancel()
		following.Wait()
	}
}

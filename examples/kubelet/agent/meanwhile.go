package agent

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
)

const (
	// showAfter is how long a sync takes at least of which something is shown before
	// it has ended. Most have ended by then.
	showAfter = 2 * time.Second
	// showEvery is how often something is shown from then on, if there is something.
	showEvery = time.Second
)

// meanwhile shows what becomes of a pod while a sync goes on for long: while the
// image of one container is pulled, or its postStart handler runs, others run already
// and are probed. The function that it returns ends that, and waits for the end.
func (s *syncer) meanwhile(ctx context.Context, w podworkers.Work) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	shown := time.Now()
	var showing sync.WaitGroup
	showing.Go(func() {
		for pause := showAfter; elapse(ctx, pause); pause = showEvery {
			observed := s.observer.news(ctx, w.Pod.UID, shown)
			if observed == nil {
				continue
			}
			shown = observed.ObservedAt
			s.publish(w, observed, false)
			s.remember(ctx, w.Pod)
		}
	})
	return func() {
		cancel()
		showing.Wait()
	}
}

// elapse tells whether a pause has passed before ctx has ended.
func elapse(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// news is what a pod looks like that a worker is changing, nil if nothing is known
// that is newer than since: without events of the runtime that is what its lists
// show, with them a hint is held back for each change.
func (o *observer) news(ctx context.Context, uid types.UID, since time.Time) *pleg.PodStatus {
	o.mu.Lock()
	hinted := o.busy[uid]
	if hinted {
		o.busy[uid] = false
	}
	o.mu.Unlock()
	var status *pleg.PodStatus
	var err error
	if hinted {
		status, err = o.Observe(ctx, uid, time.Now())
	} else {
		status, err = o.Get(uid)
	}
	if err != nil || !status.ObservedAt.After(since) {
		return nil
	}
	return status
}

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

// publishProgress publishes what becomes of a pod while a sync goes on for long:
// while the image of one container is pulled, or its postStart handler runs, others
// run already and are probed. The function that it returns ends that, and waits for
// the end.
func (s *Syncer) publishProgress(ctx context.Context, w podworkers.Work) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	newest := time.Now()
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for pause := progressAfter; run.Sleep(ctx, pause); pause = progressEvery {
			observed := s.observer.whileChanging(ctx, w.Pod.UID, newest)
			if observed == nil {
				continue
			}
			newest = observed.ObservedAt
			s.publish(w, observed, false)
			s.probeAndSave(ctx, w.Pod)
		}
	})
	return func() {
		cancel()
		publishing.Wait()
	}
}

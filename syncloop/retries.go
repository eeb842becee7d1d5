package syncloop

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The pauses until the handler is called again for a pod on which it panicked.
const (
	retryPauseMin = time.Second
	retryPauseMax = 30 * time.Second
)

// retries are the syncs and sources on which somebody panicked, and when they are
// dirty again.
type retries struct {
	syncs   map[types.UID]Kinds
	sources map[string]bool

	pause time.Duration
	at    time.Time // zero when there is nothing to try
}

func newRetries() *retries {
	return &retries{syncs: map[types.UID]Kinds{}, sources: map[string]bool{}, pause: retryPauseMin}
}

// plan sees to it that there is a next attempt.
func (r *retries) plan(now time.Time) {
	if r.at.IsZero() {
		r.at = now.Add(r.pause)
	}
}

// due tells whether it is time for the next attempt.
func (r *retries) due(now time.Time) bool { return !r.at.IsZero() && !now.Before(r.at) }

// attempted ends an attempt: what failed again waits for longer.
func (r *retries) attempted(now time.Time) {
	r.at = time.Time{}
	if len(r.syncs)+len(r.sources) == 0 {
		r.pause = retryPauseMin
		return
	}
	r.pause = min(2*r.pause, retryPauseMax)
	r.plan(now)
}

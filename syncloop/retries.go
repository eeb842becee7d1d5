package syncloop

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The pauses between retries of a pod on which the handler panicked.
const (
	retryPauseMin = time.Second
	retryPauseMax = 30 * time.Second
)

// retries are the syncs and sources on which a call panicked, and the time of the next attempt.
type retries struct {
	syncs   map[types.UID]Kinds
	sources map[string]bool

	pause time.Duration
	at    time.Time // zero without an attempt
}

func newRetries() *retries {
	return &retries{syncs: map[types.UID]Kinds{}, sources: map[string]bool{}, pause: retryPauseMin}
}

func (r *retries) plan(now time.Time) {
	if r.at.IsZero() {
		r.at = now.Add(r.pause)
	}
}

func (r *retries) due(now time.Time) bool { return !r.at.IsZero() && !now.Before(r.at) }

// attempted ends an attempt. It doubles the pause if items remain, else resets it.
func (r *retries) attempted(now time.Time) {
	r.at = time.Time{}
	if len(r.syncs)+len(r.sources) == 0 {
		r.pause = retryPauseMin
		return
	}
	r.pause = min(2*r.pause, retryPauseMax)
	r.plan(now)
}

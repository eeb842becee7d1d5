package images

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/internal/backoff"
)

// bucket is a token bucket. It starts full.
type bucket struct {
	qps, burst float64

	mu     sync.Mutex
	tokens float64
	last   time.Time
}

func newBucket(qps float64, burst int) *bucket {
	return &bucket{qps: qps, burst: float64(burst), tokens: float64(burst)}
}

func (b *bucket) take(now time.Time) bool {
	if b.qps < 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.last.IsZero() && now.After(b.last) {
		b.tokens = min(b.burst, b.tokens+now.Sub(b.last).Seconds()*b.qps)
	}
	if now.After(b.last) {
		b.last = now
	}
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// history stores the last failed pull per pod and image.
type history struct {
	delays *backoff.Table

	mu   sync.Mutex
	last map[string]failure
}

type failure struct {
	at    time.Time
	err   error
	tries int // in a row
}

// failureLifetime is the time after a key's last failure at which its count restarts.
const failureLifetime = 10 * time.Minute

func newHistory() *history {
	return &history{delays: backoff.New(backoff.Config{Forget: failureLifetime}), last: map[string]failure{}}
}

// blocked returns the end of a key's back-off and the failure, or a zero time.
func (h *history) blocked(key string, now time.Time) (time.Time, error) {
	h.mu.Lock()
	f, ok := h.last[key]
	h.mu.Unlock()
	if !ok {
		return time.Time{}, nil
	}
	until := h.delays.Until(key, f.at)
	if !now.Before(until) {
		return time.Time{}, nil
	}
	return until, f.err
}

// failed records a failure and returns the end of the back-off. It also drops expired failures, so
// that keys of removed pods do not accumulate.
func (h *history) failed(key string, now time.Time, err error) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, f := range h.last {
		if now.Sub(f.at) > failureLifetime {
			delete(h.last, k)
		}
	}
	h.delays.Trim(now)
	h.last[key] = failure{at: now, err: err, tries: h.last[key].tries + 1}
	return now.Add(h.delays.Next(key, now, now))
}

// succeeded ends the back-off of a key. The count of failures expires by time only, because a
// registry that succeeds now and then is still unreliable.
func (h *history) succeeded(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.last, key)
}

func (h *history) forget(prefix string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.last {
		if strings.HasPrefix(key, prefix) {
			delete(h.last, key)
		}
	}
	h.delays.Forget(prefix)
}

// explain returns the failed pulls of the keys with a prefix, by image.
func (h *history) explain(prefix string, now time.Time) []podwright.Explanation {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []podwright.Explanation
	for _, key := range slices.Sorted(maps.Keys(h.last)) {
		image, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		f := h.last[key]
		e := podwright.Explanation{
			Part: "image " + image, Since: f.at, Why: fmt.Sprintf("waiting to retry the pull (%d failed)", f.tries), Err: f.err,
		}
		if until := h.delays.Until(key, f.at); now.Before(until) {
			e.NextTry = until
		}
		out = append(out, e)
	}
	return out
}

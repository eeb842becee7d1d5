// Package loglimit keeps repeated messages out of a log.
package loglimit

import (
	"sync"
	"time"
)

// Limiter selects the messages to log: a new text about an object at once, the same text again
// after a period. It is safe for concurrent use.
type Limiter struct {
	period time.Duration

	mu    sync.Mutex
	last  map[string]logged
	swept time.Time
}

type logged struct {
	text string
	at   time.Time
}

// New returns a Limiter. A period of zero or less is one minute.
func New(period time.Duration) *Limiter {
	if period <= 0 {
		period = time.Minute
	}
	return &Limiter{period: period, last: map[string]logged{}}
}

// Allow reports whether to log text about object, and then stores it.
func (l *Limiter) Allow(now time.Time, object, text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	if last, ok := l.last[object]; ok && last.text == text && now.Sub(last.at) < l.period {
		return false
	}
	l.last[object] = logged{text, now}
	return true
}

// Forget drops the text about an object. Call it when the object has recovered.
func (l *Limiter) Forget(object string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, object)
}

// sweep drops texts that are older than a period, once per period.
func (l *Limiter) sweep(now time.Time) {
	if now.Sub(l.swept) < l.period {
		return
	}
	l.swept = now
	for object, last := range l.last {
		if now.Sub(last.at) >= l.period {
			delete(l.last, object)
		}
	}
}

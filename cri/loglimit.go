package cri

import (
	"sync"
	"time"
)

// LogLimiter decides which repeated messages about an object are worth a log
// line: a new text at once, the same text again only after a period. It is safe
// for concurrent use and takes the time as an argument.
type LogLimiter struct {
	period time.Duration

	mu    sync.Mutex
	last  map[string]logged
	swept time.Time
}

type logged struct {
	text string
	at   time.Time
}

// NewLogLimiter returns a limiter that lets the same text about the same object
// pass once per period. A period of zero or less means one minute.
func NewLogLimiter(period time.Duration) *LogLimiter {
	if period <= 0 {
		period = time.Minute
	}
	return &LogLimiter{period: period, last: map[string]logged{}}
}

// Allow tells whether text about object should be logged now, and remembers it
// if so. Objects that have been silent for a period are forgotten.
func (l *LogLimiter) Allow(now time.Time, object, text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	if last, ok := l.last[object]; ok && last.text == text && now.Sub(last.at) < l.period {
		return false
	}
	l.last[object] = logged{text, now}
	return true
}

// Forget drops what is remembered about an object, so that its next message
// passes. Call it when the object is well again.
func (l *LogLimiter) Forget(object string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, object)
}

// sweep bounds the memory by what was logged in the last two periods.
func (l *LogLimiter) sweep(now time.Time) {
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

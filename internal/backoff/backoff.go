// Package backoff stores, per key, the delay after repeated failures, for crash-looping
// containers and failing image pulls.
//
// The first Next for a key stores the initial delay, each further one doubles it up to the
// maximum. A key whose last Next is older than the forget time starts again with the initial
// delay. The package reads no clock: callers pass the times. A Table is safe for concurrent use.
// ExampleTable in example_test.go is a complete program.
package backoff

import (
	"strings"
	"sync"
	"time"
)

// Config configures the delays.
type Config struct {
	// Initial is the first delay. Default: 10 s.
	Initial time.Duration
	// Max is the largest delay, also for Initial. Default: 5 min.
	Max time.Duration
	// Forget is the time after the last Next at which a key is forgotten. Default: 10 min.
	Forget time.Duration
}

// Table has the delays of many keys. Use New. It is safe for concurrent use.
type Table struct {
	cfg Config
	mu  sync.Mutex
	m   map[string]entry
}

type entry struct {
	delay   time.Duration
	updated time.Time
}

// New returns an empty table.
func New(cfg Config) *Table {
	if cfg.Initial <= 0 {
		cfg.Initial = 10 * time.Second
	}
	if cfg.Max <= 0 {
		cfg.Max = 5 * time.Minute
	}
	if cfg.Forget <= 0 {
		cfg.Forget = 10 * time.Minute
	}
	cfg.Initial = min(cfg.Initial, cfg.Max)
	return &Table{cfg: cfg, m: map[string]entry{}}
}

// Until returns the time of the next attempt: the delay of the key after since, the end of the
// last attempt. It returns the zero time if no delay is stored or the key was forgotten by then.
// A since before the last Next, for example from another clock, counts as the time of the last
// Next.
func (t *Table) Until(key string, since time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.m[key]
	if !ok || t.expired(e, since) {
		return time.Time{}
	}
	if since.Before(e.updated) {
		since = e.updated
	}
	return since.Add(e.delay)
}

// Next stores the next delay of the key and returns it. since is the end of the last attempt.
// now is the time of storage, at which the forget time starts. For a failed attempt the two are
// equal. For a restarted process now is the time of the restart, so that only its run counts,
// without the delay before it.
func (t *Table) Next(key string, since, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.m[key]
	switch {
	case !ok || t.expired(e, since):
		e.delay = t.cfg.Initial
	default:
		e.delay = t.doubled(e.delay)
	}
	e.updated = now
	t.m[key] = e
	return e.delay
}

// Restore sets the state after n calls of Next, the last one at updated, for a key without a
// delay. Callers use it after a restart of the process. It has no effect if n is below 1.
func (t *Table) Restore(key string, n int, updated time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.m[key]; known || n < 1 {
		return
	}
	delay := t.cfg.Initial
	for ; n > 1 && delay < t.cfg.Max; n-- {
		delay = t.doubled(delay)
	}
	t.m[key] = entry{delay: delay, updated: updated}
}

// Delay returns the delay of the key, or zero.
func (t *Table) Delay(key string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[key].delay
}

// Trim drops every key that is forgotten at now.
func (t *Table) Trim(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, e := range t.m {
		if t.expired(e, now) {
			delete(t.m, key)
		}
	}
}

// Forget drops every key with a prefix.
func (t *Table) Forget(prefix string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.m {
		if strings.HasPrefix(key, prefix) {
			delete(t.m, key)
		}
	}
}

// Len returns the number of keys.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.m)
}

func (t *Table) doubled(delay time.Duration) time.Duration {
	if delay > t.cfg.Max/2 { // twice the delay may overflow
		return t.cfg.Max
	}
	return 2 * delay
}

func (t *Table) expired(e entry, at time.Time) bool { return at.Sub(e.updated) > t.cfg.Forget }

// Package backoff remembers, per key, how long to hold back after repeated
// failures: crash-looping containers and failing image pulls follow the same
// arithmetic.
//
// The first Next for a key stores the initial delay, each further one doubles
// it up to the maximum. A key whose last Next lies further back than the forget
// time starts anew. Nothing here reads a clock: the caller passes the moments.
//
// An example that runs: ExampleTable in example_test.go.
package backoff

import (
	"strings"
	"sync"
	"time"
)

// Config sets the delays.
type Config struct {
	// Initial is the first delay; zero means 10 s.
	Initial time.Duration
	// Max bounds the delay; zero means 5 min. Initial is cut to it.
	Max time.Duration
	// Forget is how long after the last Next a key is forgotten; zero means
	// 10 min.
	Forget time.Duration
}

// Table holds the delays of many keys. Use New. It is safe for concurrent use.
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

// Until returns the moment until which the key is held back, counted from
// since, the end of the last attempt; the zero time when nothing is stored or
// it was forgotten by then. An attempt that ended before it was stored, which another
// clock may say, ended then.
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

// Next stores the next delay of the key and returns it. since is the end of the
// last attempt; now is when it is stored, from which on the key is forgotten. For a
// failed attempt the two are the same. For something that runs, now is when it is
// started again, so that only a run, and not the delay before it, makes it forget.
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

// Restore stores what n calls of Next have left, the last of them at updated, for a key
// that nothing is stored for. It is for whoever knows of them from elsewhere: this
// table does not outlive its process. n below 1 is none.
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

// Delay returns the delay stored for the key, zero when there is none.
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

// Forget drops every key that begins with a prefix.
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
	if delay > t.cfg.Max/2 { // twice of it may be more than a Duration holds
		return t.cfg.Max
	}
	return 2 * delay
}

func (t *Table) expired(e entry, at time.Time) bool { return at.Sub(e.updated) > t.cfg.Forget }

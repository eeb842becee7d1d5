package credentials

import (
	"context"
	"sync"
	"time"
)

// cache stores a plugin's responses per scope (an image, a registry or global) and account.
type cache struct {
	mu      sync.Mutex
	entries map[string]cached
}

type cached struct {
	ring    Keyring
	expires time.Time
}

// get looks up the image, then its registry, then the global entry.
func (c *cache) get(repository, account string, now time.Time) (Keyring, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, keyType := range []string{cacheByImage, cacheByRegistry, cacheGlobally} {
		entry, ok := c.entries[join(scopeOf(keyType, repository), account)]
		if ok && now.Before(entry.expires) {
			return entry.ring, true
		}
	}
	return Keyring{}, false
}

// put stores a response and drops expired ones. So the cache contains only responses within the
// longest cache duration.
func (c *cache) put(scope, account string, ring Keyring, expires time.Time) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, entry := range c.entries {
		if !now.Before(entry.expires) {
			delete(c.entries, k)
		}
	}
	if c.entries == nil {
		c.entries = map[string]cached{}
	}
	c.entries[join(scope, account)] = cached{ring: ring, expires: expires}
}

// group merges concurrent identical calls into one.
type group struct {
	mu    sync.Mutex
	calls map[string]*call
}

// call is a merged call. ring and err are set before done is closed.
type call struct {
	waiting int // guarded by group.mu
	cancel  context.CancelFunc
	done    chan struct{}
	ring    Keyring
	err     error
}

// do returns the result of f, which the first caller starts. f's context ends when all waiting
// callers are cancelled; the last of them waits for f to return.
func (g *group) do(ctx context.Context, key string, f func(context.Context) (Keyring, error)) (Keyring, error) {
	c := g.join(ctx, key, f)
	select {
	case <-c.done:
	case <-ctx.Done():
		if g.leave(key, c) {
			<-c.done
		}
		return Keyring{}, ctx.Err()
	}
	return c.ring, c.err
}

func (g *group) join(ctx context.Context, key string, f func(context.Context) (Keyring, error)) *call {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.calls[key]; c != nil {
		c.waiting++
		return c
	}
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &call{waiting: 1, cancel: cancel, done: make(chan struct{})}
	if g.calls == nil {
		g.calls = map[string]*call{}
	}
	g.calls[key] = c
	go func() {
		defer cancel()
		defer close(c.done)
		c.ring, c.err = f(detached)
		g.forget(key, c)
	}()
	return c
}

// leave reports whether no caller remains, so that f was cancelled.
func (g *group) leave(key string, c *call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.waiting--; c.waiting > 0 {
		return false
	}
	if g.calls[key] == c {
		delete(g.calls, key) // new callers must not join a cancelled call
	}
	c.cancel()
	return true
}

func (g *group) forget(key string, c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls[key] == c {
		delete(g.calls, key)
	}
}

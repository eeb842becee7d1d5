package objects

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/run"
)

// TokenCacheConfig configures a TokenCache.
type TokenCacheConfig struct {
	// Tokens issues the tokens. Required.
	Tokens Tokens
	// Logger receives failed requests while the old token is valid. Optional: without it they
	// are discarded.
	Logger *slog.Logger
}

// TokenCache implements Tokens with cached tokens of another Tokens. It replaces a token when a
// fifth of its validity remains, or 24 h after its issue, up to 10 s earlier at random. If a
// request fails, a valid token stays in use and the request is retried after 10 s. It is safe
// for concurrent use.
type TokenCache struct {
	cfg TokenCacheConfig

	mu        sync.Mutex
	slots     map[tokenKey]*tokenSlot
	lastSweep time.Time
}

// tokenSlot has one token. busy is a lock of capacity 1: its holder may request the token.
type tokenSlot struct {
	busy chan struct{}
	// cached is guarded by busy; without users it is guarded by the cache's mu.
	cached cachedToken
	// users counts the waiting and requesting calls. It is guarded by the cache's mu.
	users int
}

var _ Tokens = (*TokenCache)(nil)

// NewTokenCache returns an empty TokenCache.
func NewTokenCache(cfg TokenCacheConfig) (*TokenCache, error) {
	if err := fields.Required("objects: TokenCacheConfig.Tokens", cfg.Tokens); err != nil {
		return nil, err
	}
	fields.Logger(&cfg.Logger)
	return &TokenCache{cfg: cfg, slots: map[tokenKey]*tokenSlot{}}, nil
}

// Token implements Tokens. Concurrent calls for one token share a request.
func (c *TokenCache) Token(ctx context.Context, r TokenRequest) (Token, error) {
	key := keyOf(r)
	slot := c.enter(key)
	defer c.leave(key, slot)
	select {
	case slot.busy <- struct{}{}:
		defer func() { <-slot.busy }()
	case <-ctx.Done():
		return Token{}, run.EndOf(ctx)
	}
	now := time.Now()
	if slot.cached.valid(now) && !slot.cached.mustReplace(now) {
		return slot.cached.token, nil
	}
	fresh, err := c.cfg.Tokens.Token(ctx, r)
	now = time.Now()
	if err == nil {
		slot.cached = newCachedToken(fresh, now, rand.N(maxJitter))
	}
	switch {
	case slot.cached.valid(now):
		if err != nil {
			c.cfg.Logger.Warn("Service account token not replaced; the old token stays in use",
				"namespace", r.Namespace, "serviceAccount", r.ServiceAccount, "pod", r.PodName, "expires", slot.cached.token.Expires, "err", err)
			slot.cached = slot.cached.notBefore(now.Add(minRequestInterval))
		}
		return slot.cached.token, nil
	case err == nil:
		err = fmt.Errorf("received an expired token: it expired at %s", fresh.Expires)
	}
	return Token{}, fmt.Errorf("token of service account %s/%s: %w", r.Namespace, r.ServiceAccount, err)
}

// Retain drops the tokens of pods for which wanted returns false. A token that is being
// requested stays until the next call. A token without a pod stays until it expires.
func (c *TokenCache) Retain(wanted func(pod types.UID) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, slot := range c.slots {
		if key.pod != "" && slot.users == 0 && !wanted(key.pod) {
			delete(c.slots, key)
		}
	}
}

func (c *TokenCache) enter(key tokenKey) *tokenSlot {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.lastSweep) >= time.Minute {
		c.lastSweep = now
		for key, slot := range c.slots {
			if slot.users == 0 && !slot.cached.valid(now) {
				delete(c.slots, key)
			}
		}
	}
	slot := c.slots[key]
	if slot == nil {
		slot = &tokenSlot{busy: make(chan struct{}, 1)}
		c.slots[key] = slot
	}
	slot.users++
	return slot
}

// leave removes a slot without users and without a token.
func (c *TokenCache) leave(key tokenKey, slot *tokenSlot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot.users--
	if slot.users == 0 && slot.cached.token.Value == "" {
		delete(c.slots, key)
	}
}

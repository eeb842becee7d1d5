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
	// Logger receives requests that failed while there was a valid token; nil discards.
	Logger *slog.Logger
}

// TokenCache is Tokens that asks others for a token when it has none, or when the one
// that it has gets old: when a fifth of its life is left, less up to 10 s by chance, or
// 24 h after it was issued. A request that fails leaves a valid token in use; it is
// tried again after 10 s.
type TokenCache struct {
	cfg TokenCacheConfig

	mu    sync.Mutex
	slots map[tokenKey]*tokenSlot
	swept time.Time
}

// tokenSlot is the place of one token. Who has put something into busy may ask for it.
type tokenSlot struct {
	busy chan struct{}
	// held is of who is busy; without users, of who has the cache's mutex.
	held heldToken
	// users counts who waits or asks; guarded by the cache's mutex.
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

// Token implements Tokens. Of several calls for one token at a time, one asks.
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
	if slot.held.valid(now) && !slot.held.isDue(now) {
		return slot.held.token, nil
	}
	fresh, err := c.cfg.Tokens.Token(ctx, r)
	now = time.Now()
	if err == nil {
		slot.held = hold(fresh, now, rand.N(mostJitter))
	}
	switch {
	case slot.held.valid(now):
		if err != nil {
			c.cfg.Logger.Warn("cannot replace the token of a service account: the old one stays in use",
				"namespace", r.Namespace, "serviceAccount", r.ServiceAccount, "pod", r.PodName, "expires", slot.held.token.Expires, "err", err)
			slot.held = slot.held.notBefore(now.Add(pause))
		}
		return slot.held.token, nil
	case err == nil:
		err = fmt.Errorf("it had expired when it came, at %s", fresh.Expires)
	}
	return Token{}, fmt.Errorf("token of service account %s/%s: %w", r.Namespace, r.ServiceAccount, err)
}

// Retain drops the tokens of pods for which wanted says no. A token that is being asked for
// stays until the next call; one that is bound to no pod stays until it has expired.
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
	if now := time.Now(); now.Sub(c.swept) >= time.Minute {
		c.swept = now
		for key, slot := range c.slots {
			if slot.users == 0 && !slot.held.valid(now) {
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

// leave drops the place of a token that nobody got. Who is busy has not left.
func (c *TokenCache) leave(key tokenKey, slot *tokenSlot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot.users--
	if slot.users == 0 && slot.held.token.Value == "" {
		delete(c.slots, key)
	}
}

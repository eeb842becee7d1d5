package objects

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Bounds of the use of a token.
const (
	maxUse          = 24 * time.Hour
	maxJitter       = 10 * time.Second
	refreshFraction = 5 // replaced when a fifth of the validity remains
	// minRequestInterval is the shortest time between two requests for one token.
	minRequestInterval = 10 * time.Second
)

type tokenKey struct {
	namespace, account, audiences, podName string
	pod                                    types.UID
	seconds                                int64
}

func keyOf(r TokenRequest) tokenKey {
	audiences := slices.Sorted(slices.Values(r.Audiences))
	return tokenKey{r.Namespace, r.ServiceAccount, strings.Join(audiences, "\x00"), r.PodName, r.PodUID, r.ExpirationSeconds}
}

// cachedToken is an issued token with the time of its replacement. It has no clock.
type cachedToken struct {
	token     Token
	replaceAt time.Time
}

// newCachedToken returns the state of a token that was received now. jitter, up to maxJitter, spreads
// the replacements of tokens over time.
func newCachedToken(t Token, now time.Time, jitter time.Duration) cachedToken {
	if t.Issued.IsZero() {
		t.Issued = now
	}
	h := cachedToken{token: t, replaceAt: t.Issued.Add(maxUse - jitter)}
	if !t.Expires.IsZero() {
		life := t.Expires.Sub(t.Issued)
		if at := t.Expires.Add(-life/refreshFraction - jitter); at.Before(h.replaceAt) {
			h.replaceAt = at
		}
	}
	return h.notBefore(now.Add(minRequestInterval))
}

// notBefore delays the next request after a failure, or after a token that is already due.
func (h cachedToken) notBefore(t time.Time) cachedToken {
	if h.replaceAt.Before(t) {
		h.replaceAt = t
	}
	h.token.RefreshAt = h.replaceAt
	return h
}

func (h cachedToken) mustReplace(now time.Time) bool { return !now.Before(h.replaceAt) }

// valid reports whether there is a usable token.
func (h cachedToken) valid(now time.Time) bool {
	return h.token.Value != "" && (h.token.Expires.IsZero() || now.Before(h.token.Expires))
}

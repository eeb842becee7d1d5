package objects

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Bounds of the use of a token.
const (
	longestUse  = 24 * time.Hour
	mostJitter  = 10 * time.Second
	refreshRest = 5 // replaced when a fifth of the validity remains
	// pause is the shortest time between two requests for one token.
	pause = 10 * time.Second
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

// heldToken is an issued token with the time of its replacement. It has no clock.
type heldToken struct {
	token Token
	due   time.Time
}

// hold returns the state of a token that was received now. jitter, up to mostJitter, spreads
// the replacements of tokens over time.
func hold(t Token, now time.Time, jitter time.Duration) heldToken {
	if t.Issued.IsZero() {
		t.Issued = now
	}
	h := heldToken{token: t, due: t.Issued.Add(longestUse - jitter)}
	if !t.Expires.IsZero() {
		life := t.Expires.Sub(t.Issued)
		if at := t.Expires.Add(-life/refreshRest - jitter); at.Before(h.due) {
			h.due = at
		}
	}
	return h.notBefore(now.Add(pause))
}

// notBefore delays the next request after a failure, or after a token that is already due.
func (h heldToken) notBefore(t time.Time) heldToken {
	if h.due.Before(t) {
		h.due = t
	}
	h.token.RefreshAt = h.due
	return h
}

func (h heldToken) isDue(now time.Time) bool { return !now.Before(h.due) }

// valid reports whether there is a usable token.
func (h heldToken) valid(now time.Time) bool {
	return h.token.Value != "" && (h.token.Expires.IsZero() || now.Before(h.token.Expires))
}

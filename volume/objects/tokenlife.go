package objects

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// How long tokens are kept.
const (
	longestUse  = 24 * time.Hour
	mostJitter  = 10 * time.Second
	refreshRest = 5 // a fifth of its life is left when a token is replaced
	// pause is the least time between two requests for one token.
	pause = 10 * time.Second
)

// tokenKey is what tells tokens apart.
type tokenKey struct {
	namespace, account, audiences, podName string
	pod                                    types.UID
	seconds                                int64
}

func keyOf(r TokenRequest) tokenKey {
	audiences := slices.Sorted(slices.Values(r.Audiences))
	return tokenKey{r.Namespace, r.ServiceAccount, strings.Join(audiences, "\x00"), r.PodName, r.PodUID, r.ExpirationSeconds}
}

// heldToken is a token that was issued, and when it has to be replaced. It is data: no
// clock, no calls.
type heldToken struct {
	token Token
	// due is when the token has to be replaced.
	due time.Time
}

// hold takes a token that was received now. jitter, up to mostJitter, makes that not
// all are replaced at one time.
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

// notBefore puts the next request off: after one that failed, or one that brought a
// token which is due already.
func (h heldToken) notBefore(t time.Time) heldToken {
	if h.due.Before(t) {
		h.due = t
	}
	h.token.RefreshAt = h.due
	return h
}

func (h heldToken) isDue(now time.Time) bool { return !now.Before(h.due) }

// valid tells whether there is a token that can be used.
func (h heldToken) valid(now time.Time) bool {
	return h.token.Value != "" && (h.token.Expires.IsZero() || now.Before(h.token.Expires))
}

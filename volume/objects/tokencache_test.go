package objects

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// issuer makes m issue tokens with the requested validity.
func issuer(m *Memory, calls *int) {
	m.IssueToken = func(r TokenRequest) (Token, error) {
		*calls++
		now := time.Now()
		return Token{Value: fmt.Sprint("t", *calls), Issued: now, Expires: now.Add(time.Duration(r.ExpirationSeconds) * time.Second)}, nil
	}
}

func newCache(t testing.TB, m *Memory) *TokenCache {
	c, err := NewTokenCache(TokenCacheConfig{Tokens: m})
	require.NoError(t, err)
	return c
}

var hour = TokenRequest{Namespace: "ns", ServiceAccount: "sa", ExpirationSeconds: 3600, PodName: "p", PodUID: "u"}

// V10: a token is replaced before it expires.
func TestTokenIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, calls := &Memory{}, 0
		issuer(m, &calls)
		c := newCache(t, m)
		at := func(seconds int, want string) {
			start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			time.Sleep(time.Until(start.Add(time.Duration(seconds) * time.Second)))
			got, err := c.Token(t.Context(), hour)
			require.NoError(t, err)
			require.Equal(t, want, got.Value, seconds)
			require.True(t, got.RefreshAt.After(time.Now()))
		}
		at(0, "t1")
		at(2869, "t1")
		at(2881, "t2")
		m.Fail = func(volume.Object) error { return errors.New("the server is unreachable") }
		at(2881+2881, "t2")
		at(2881+3599, "t2")
		time.Sleep(2 * time.Second)
		_, err := c.Token(t.Context(), hour)
		require.EqualError(t, err, "token of service account ns/sa: the server is unreachable")
		m.Fail = nil
		at(2881+3602, "t3")
	})
}

// The first request at RefreshAt returns a new token.
func TestRefreshAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, calls := &Memory{}, 0
		issuer(m, &calls)
		c := newCache(t, m)
		for range 30 {
			before := calls
			token, err := c.Token(t.Context(), hour)
			require.NoError(t, err)
			left := time.Until(token.RefreshAt)
			require.True(t, left > 2869*time.Second && left <= 2880*time.Second, left)
			time.Sleep(left - time.Nanosecond)
			_, err = c.Token(t.Context(), hour)
			require.NoError(t, err)
			require.Equal(t, before+1, calls)
			time.Sleep(time.Nanosecond)
		}
		// A token for a week, and one without expiry, are replaced after a day.
		for _, seconds := range []int64{7 * 24 * 3600, 0} {
			if seconds == 0 {
				m.IssueToken = func(TokenRequest) (Token, error) { return Token{Value: "for ever"}, nil }
			}
			week := hour
			week.ExpirationSeconds = seconds
			token, err := c.Token(t.Context(), week)
			require.NoError(t, err)
			require.InDelta(t, 24*time.Hour, time.Until(token.RefreshAt), float64(maxJitter))
			require.LessOrEqual(t, time.Until(token.RefreshAt), 24*time.Hour)
		}
		// If a new token is already due for replacement, the next request waits for the pause.
		m.IssueToken = func(TokenRequest) (Token, error) {
			calls++
			return Token{Value: "old", Issued: time.Now().Add(-time.Hour), Expires: time.Now().Add(time.Minute)}, nil
		}
		oldRequest := hour
		oldRequest.Audiences = []string{"odd"}
		before := calls
		for range 10 {
			token, err := c.Token(t.Context(), oldRequest)
			require.NoError(t, err)
			require.Equal(t, minRequestInterval, time.Until(token.RefreshAt))
		}
		require.Equal(t, before+1, calls)
		m.IssueToken = func(TokenRequest) (Token, error) { return Token{Value: "old", Expires: time.Now()}, nil }
		oldRequest.Audiences = []string{"odder"}
		_, err := c.Token(t.Context(), oldRequest)
		require.ErrorContains(t, err, "received an expired token")
	})
}

func TestTokensAreCachedPerRequest(t *testing.T) {
	m, calls := &Memory{}, 0
	issuer(m, &calls)
	c := newCache(t, m)
	other := []TokenRequest{hour, hour, hour, hour, hour, hour, hour}
	other[0].Namespace, other[1].ServiceAccount, other[2].PodName, other[3].PodUID = "x", "x", "x", "x"
	other[4].ExpirationSeconds, other[5].Audiences = 7200, []string{"a", "b"}
	for range 2 {
		for _, r := range other {
			_, err := c.Token(t.Context(), r)
			require.NoError(t, err)
		}
	}
	other[5].Audiences = []string{"b", "a"}
	_, err := c.Token(t.Context(), other[5])
	require.NoError(t, err)
	require.Equal(t, len(other), calls)
	unbound := hour
	unbound.PodName, unbound.PodUID = "", ""
	_, err = c.Token(t.Context(), unbound)
	require.NoError(t, err)
	c.Retain(func(pod types.UID) bool { return pod != "u" })
	require.Len(t, c.slots, 2)
}

func TestConcurrentCallsShareARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, calls := &Memory{}, 0
		m.IssueToken = func(r TokenRequest) (Token, error) {
			calls++
			time.Sleep(time.Second)
			return Token{Value: "t", Expires: time.Now().Add(time.Hour)}, nil
		}
		c := newCache(t, m)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, err := c.Token(t.Context(), hour)
				require.NoError(t, err)
			})
		}
		synctest.Wait()
		ctx, stop := context.WithCancel(t.Context())
		stop()
		_, err := c.Token(ctx, hour)
		require.ErrorIs(t, err, context.Canceled, "a cancelled call returns")
		wg.Wait()
		require.Equal(t, 1, calls)
		require.Len(t, c.slots, 1)
		time.Sleep(2 * time.Hour)
		other := hour
		other.PodUID = "other"
		m.Fail = func(volume.Object) error { return errors.New("odd") }
		_, err = c.Token(t.Context(), other)
		require.Error(t, err)
		require.Empty(t, c.slots, "expired tokens and failed requests leave no slots")
	})
}

func TestNewTokenCache(t *testing.T) {
	_, err := NewTokenCache(TokenCacheConfig{})
	require.EqualError(t, err, "objects: TokenCacheConfig.Tokens is required")
}

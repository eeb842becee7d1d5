package loglimit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLimiter(t *testing.T) {
	limiter := New(0)
	now := time.Unix(0, 0)
	for _, c := range []struct {
		after        time.Duration
		object, text string
		want         bool
	}{
		{0, "a", "x", true},
		{0, "a", "x", false},
		{0, "b", "x", true},
		{59 * time.Second, "a", "x", false},
		{60 * time.Second, "a", "x", true},
		{61 * time.Second, "a", "y", true},
		{62 * time.Second, "a", "x", true},
	} {
		require.Equal(t, c.want, limiter.Allow(now.Add(c.after), c.object, c.text), "%v %s %s", c.after, c.object, c.text)
	}
	limiter.Forget("a")
	require.True(t, limiter.Allow(now.Add(63*time.Second), "a", "x"))

	for i := range 10_000 { // an object per second
		limiter.Allow(now.Add(time.Hour+time.Duration(i)*time.Second), fmt.Sprint(i), "x")
	}
	require.LessOrEqual(t, len(limiter.last), 121)
}

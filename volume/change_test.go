package volume

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A plugin that wants to be called again at once is called in a second.
func TestRefreshIsNotAtOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	require.True(t, refreshAt(time.Time{}, now).IsZero())
	for after, want := range map[time.Duration]time.Duration{
		-time.Hour: time.Second, 0: time.Second, time.Second: time.Second, time.Minute: time.Minute,
	} {
		require.Equal(t, want, refreshAt(now.Add(after), now).Sub(now))
	}
}

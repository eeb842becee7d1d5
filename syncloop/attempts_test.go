package syncloop

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// An attempt is over when it was made: whatever failed again is not due at once.
func TestRetryIsNotDueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, pods := &recorder{onSync: func() { panic("no") }}, newScript()
		l, err := New(Config{Handler: h, Pods: pods})
		require.NoError(t, err)
		l.retries.syncs["a"] = Kinds(0).With(PodDirty)
		l.retries.plan(time.Now())
		time.Sleep(retryPauseMin)
		for range 2 {
			l.iterate(t.Context())
			require.Equal(t, []string{"sync a (pod dirty)"}, h.take())
			require.False(t, l.retries.due(time.Now()))
			require.Equal(t, time.Now().Add(2*retryPauseMin), l.retries.at)
			l.retries.pause = retryPauseMin
			time.Sleep(2 * retryPauseMin)
		}
		h.onSync = nil
		l.iterate(t.Context())
		h.take()
		require.True(t, l.retries.at.IsZero())
	})
}

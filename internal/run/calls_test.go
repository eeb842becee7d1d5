package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What nobody waits for any more is not begun.
func TestCallsAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var c Calls
	called := false
	err := c.Do(ctx, "unmount", "/a", func() error { called = true; return nil })
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "unmount /a: context canceled")
	require.NotErrorIs(t, err, ErrLeftBehind)
	<-c.group.Idle()
	require.False(t, called)
}

// A call that hangs ends with its context; the next one on its path waits for it, others
// do not.
func TestCallsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		release := make(chan struct{})
		short := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		hang := func() error { <-release; return errors.New("late") }
		err := c.Do(short(), "unmount", "/a", hang)
		require.ErrorIs(t, err, ErrLeftBehind)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "unmount /a")
		require.Equal(t, []string{"unmount /a since 2000-01-01T00:00:00Z"}, c.Running())

		require.NoError(t, c.Do(short(), "unmount", "/b", func() error { return nil }))
		called := false
		err = c.Do(short(), "look at", "/a", func() error { called = true; return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrLeftBehind)
		require.NoError(t, c.DoNow(short(), "detach", "/a", func() error { return nil }))
		synctest.Wait() // until what has returned is counted no more
		require.Len(t, c.Running(), 1, "one goroutine, however often it is tried")
		require.False(t, called)

		time.AfterFunc(500*time.Millisecond, func() { close(release) })
		require.NoError(t, c.Do(short(), "look at", "/a", func() error { called = true; return nil }))
		require.True(t, called)
		synctest.Wait()
		require.Empty(t, c.Running())
		require.Empty(t, c.paths)
	})
}

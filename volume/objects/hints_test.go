package objects

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A file is left alone while somebody writes to it, and without word of that for a moment
// after its last change.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHints()
		old, now := time.Now().Add(-time.Hour), time.Now()
		require.Zero(t, h.busy("/m/a", old, now))
		require.Equal(t, quiet, h.busy("/m/a", now, now))
		require.Equal(t, quiet-time.Millisecond, h.busy("/m/a", now.Add(-time.Millisecond), now))
		require.Zero(t, h.busy("/m/a", now.Add(-quiet), now))
		require.Zero(t, h.busy("/m/a", now.Add(time.Second), now), "a clock that was put back")

		h.add(Hint{Path: "/m/a", State: Changed})
		require.Empty(t, h.states)
		h.add(Hint{Path: "/m/a", State: Writing})
		require.Equal(t, longestWrite, h.busy("/m/a", old, now))
		require.Equal(t, time.Second, h.busy("/m/a", old, now.Add(longestWrite-time.Second)))
		require.Zero(t, h.busy("/m/a", old, now.Add(longestWrite+time.Second)))
		require.Zero(t, h.busy("/m/b", old, now))
		h.add(Hint{Path: "/m/a", State: Written})
		require.Zero(t, h.busy("/m/a", now, now))
		h.reset()
		require.Equal(t, quiet, h.busy("/m/a", now, now))
	})
}

// What is known of files that are not there is forgotten, not before it can be too old.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHints()
		for _, path := range []string{"/m/a", "/m/gone", "/other/a"} {
			h.add(Hint{Path: path, State: Written})
		}
		forget := func() { h.forget(func(file string) bool { return file == "a" }, "/m") }
		time.Sleep(longestWrite)
		forget()
		require.Len(t, h.states, 3)
		time.Sleep(time.Nanosecond)
		forget()
		require.Len(t, h.states, 1)
		require.Contains(t, h.states, "/m/a")
	})
}

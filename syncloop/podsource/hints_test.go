package podsource

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hints
		h.init()
		start := time.Now()
		h.add(Hint{Path: "a", State: Writing})
		require.Empty(t, h.prompt, "a file being written prompts no look")
		require.Equal(t, longestWrite, h.busy("a", start, start))
		require.Equal(t, quiet, h.busy("b", start, start), "just written, by whom nobody knows")
		require.Zero(t, h.busy("b", start.Add(-time.Minute), start))
		require.Zero(t, h.busy("b", start.Add(time.Hour), start), "a clock that is wrong")
		h.add(Hint{Path: "a", State: Written})
		require.Len(t, h.prompt, 1)
		require.Zero(t, h.busy("a", start, start))
		require.NotZero(t, h.busy("a", start.Add(time.Millisecond), start.Add(time.Millisecond)), "written to after it was closed")

		h.add(Hint{Path: "a", State: Writing})
		h.add(Hint{})
		require.Zero(t, h.busy("a", start, start), "an overflow forgets what was being written")
		h.add(Hint{Path: "a", State: Writing})
		time.Sleep(longestWrite)
		require.Zero(t, h.busy("a", start, time.Now()), "a writer that never closes does not hold for ever")
		h.forget(time.Now())
		require.Empty(t, h.writing)
		require.Empty(t, h.written)
		h.add(Hint{Path: "a", State: Writing})
		h.reset()
		require.Empty(t, h.writing)
	})
}

// A deletion is looked at sooner than anything else; one that was looked at, or that
// was followed by a new file, hurries nothing.
func TestDeletions(t *testing.T) {
	var h hints
	h.init()
	h.add(Hint{Path: "a", State: Changed})
	require.False(t, h.deletions())
	h.add(Hint{Path: "a", State: Deleted})
	require.True(t, h.deletions())
	h.suspects()
	require.False(t, h.deletions(), "it was looked at")
	h.add(Hint{Path: "b", State: Changed})
	require.False(t, h.deletions())
	require.True(t, h.wasDeleted("a"))
	h.add(Hint{Path: "b", State: Deleted})
	h.add(Hint{Path: "b", State: Written})
	require.False(t, h.deletions(), "it is back")
}

package fs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHints()
		start := time.Now()
		h.Add(Hint{Path: "a", State: Writing})
		require.Empty(t, h.Prompt, "a file being written causes no prompt")
		require.Equal(t, longestWrite, h.Busy("a", start, start))
		require.Zero(t, h.Busy("b", start.Add(time.Hour), start), "a clock that is wrong")
		h.Add(Hint{Path: "a", State: Written})
		require.Len(t, h.Prompt, 1)
		require.Zero(t, h.Busy("a", start, start))
		require.NotZero(t, h.Busy("a", start.Add(time.Millisecond), start.Add(time.Millisecond)), "written to after it was closed")

		h.Add(Hint{Path: "a", State: Writing})
		h.Add(Hint{})
		require.Zero(t, h.Busy("a", start, start), "an overflow forgets running writes")
		h.Add(Hint{Path: "a", State: Writing})
		time.Sleep(longestWrite)
		require.Zero(t, h.Busy("a", start, time.Now()), "a writer that never closes the file delays it only for a while")
		h.Forget(time.Now())
		require.Empty(t, h.writing)
		require.Empty(t, h.written)
		h.Add(Hint{Path: "a", State: Writing})
		h.Reset()
		require.Empty(t, h.writing)
	})
}

// Busy returns the rest of longestWrite after a hint of writing, or else the rest of settleTime.
func TestBusyFor(t *testing.T) {
	const never = -1
	for name, c := range map[string]struct{ writing, changed, want time.Duration }{ // ages
		"being written":        {4 * time.Second, 4 * time.Second, longestWrite - 4*time.Second},
		"about to be given up": {longestWrite - 1, longestWrite - 1, 1},
		"given up":             {longestWrite, longestWrite, 0},
		"given up long ago":    {longestWrite + time.Second, longestWrite + time.Second, 0},
		"given up, and written to without a sign": {longestWrite, 0, settleTime},
		"written without a sign":                  {never, 20 * time.Millisecond, settleTime - 20*time.Millisecond},
		"quiet":                                   {never, settleTime, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := NewHints()
			now := time.Now().Add(max(c.writing, 0))
			if c.writing != never {
				h.Note(Hint{Path: "a", State: Writing})
			}
			require.Equal(t, c.want, h.Busy("a", now.Add(-c.changed), now), name)
		})
	}
}

// A deletion makes Deletions true until the next scan, or until the file returns.
func TestDeletions(t *testing.T) {
	h := NewHints()
	h.Add(Hint{Path: "a", State: Changed})
	require.False(t, h.Deletions())
	h.Add(Hint{Path: "a", State: Deleted})
	require.True(t, h.Deletions())
	h.Suspects()
	require.False(t, h.Deletions(), "the scan saw it")
	h.Add(Hint{Path: "b", State: Changed})
	require.False(t, h.Deletions())
	require.True(t, h.WasDeleted("a"))
	h.Add(Hint{Path: "b", State: Deleted})
	h.Add(Hint{Path: "b", State: Written})
	require.False(t, h.Deletions(), "it is back")
	require.Equal(t, map[string]bool{"b": true}, h.Returned())
	require.Empty(t, h.Returned())
	h.Add(Hint{Path: "c", State: Deleted})
	h.Found("c", time.Now().Add(-time.Minute))
	require.Empty(t, h.Returned(), "the scan began before the deletion")
	h.Found("c", time.Now().Add(time.Minute))
	require.Equal(t, map[string]bool{"c": true}, h.Returned())
	h.Add(Hint{Path: "c", State: Written})
	require.Empty(t, h.Returned(), "the late hint is about the same return")
}

// Each hint makes a file suspect once. A hint without a path makes all files suspect.
func TestSuspects(t *testing.T) {
	h := NewHints()
	for _, path := range []string{"a", "b", "a"} {
		h.Note(Hint{Path: path, State: Changed})
	}
	suspects, all := h.Suspects()
	require.Equal(t, map[string]bool{"a": true, "b": true}, suspects)
	require.False(t, all)
	h.Note(Hint{State: Changed})
	suspects, all = h.Suspects()
	require.Empty(t, suspects)
	require.True(t, all)
	suspects, all = h.Suspects()
	require.Empty(t, suspects)
	require.False(t, all)
}

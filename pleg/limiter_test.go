package pleg

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// windows lets a limiter judge n times; took is how long an inspection takes with
// so many at a time.
func windows(l *limiter, n int, took func(atATime int) time.Duration) {
	for range n {
		limit := l.limit
		l.room(limit) // somebody had to wait
		for range limit {
			l.ended(took(limit))
		}
	}
}

func TestLimiter(t *testing.T) {
	waits := func(int) time.Duration { return 10 * time.Millisecond }
	works := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }

	l := newLimiter(64)
	require.Equal(t, 16, l.limit)
	windows(&l, 10, waits)
	require.Equal(t, 64, l.limit, "a runtime that only waits gets as many as may be")

	l = newLimiter(64)
	windows(&l, 100, works)
	require.Equal(t, 36, l.limit, "no more than make each of them 2.5 times as slow")

	// Alone an inspection takes a millisecond: known before the crowd comes.
	l = newLimiter(64)
	for range 100 {
		l.ended(time.Millisecond)
	}
	require.Equal(t, 16, l.limit, "nobody had to wait: no reason for more")
	windows(&l, 100, works)
	require.LessOrEqual(t, l.limit, 9, "no more than 2.5 times as slow as with the fewest, 4")

	// A runtime that slows down gets fewer, and more again once it is faster.
	l = newLimiter(64)
	windows(&l, 10, waits)
	windows(&l, 10, func(int) time.Duration { return time.Second })
	require.Greater(t, l.limit, 4, "what takes a second even with the fewest at a time is given more")
	for range 100 {
		l.ended(time.Millisecond) // one after the other, on a quiet day
	}
	windows(&l, 20, works)
	require.LessOrEqual(t, l.limit, 9)

	// One in four is slow: that is no reason to slow the others down.
	l = newLimiter(32)
	i := 0
	windows(&l, 10, func(int) time.Duration {
		if i++; i%4 == 0 {
			return 4 * time.Second
		}
		return 10 * time.Millisecond
	})
	require.Equal(t, 32, l.limit)

	for _, most := range []int{1, 2, 3, 5} {
		l = newLimiter(most)
		windows(&l, 10, waits)
		require.Equal(t, most, l.limit)
		windows(&l, 4, works)
		require.LessOrEqual(t, l.limit, most)
		require.Positive(t, l.limit)
		require.False(t, l.room(l.limit))
		require.True(t, l.room(l.limit-1))
	}
}

// The limit holds for the inspections that begin.
func TestLimitHolds(t *testing.T) {
	s := newScript(t)
	s.listed(s.start(listAll))
	for i := range 40 {
		s.c.want(s.c.get(uidOf(i)), ask{request: true, due: s.now})
	}
	for range 16 {
		s.start(inspectOne)
	}
	s.idle()
	require.Equal(t, 16, s.c.health().Inspecting)
	s.inspected(s.c.slots[3], &PodStatus{UID: s.c.slots[3].uid})
	s.start(inspectOne)
	s.idle()
	require.True(t, s.c.limit.full)
}

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

// What becomes of a volume at the end of an operation on it.
func TestEndOfOperations(t *testing.T) {
	now, later := time.Unix(1000, 0), time.Unix(2000, 0)
	failed := &outcome{err: errFailed}
	there := Mounted{Path: "/v", RefreshAt: later}
	mounted := func() *volumeState {
		return &volumeState{state: StateMounted, since: now, mounted: Mounted{Path: "/v"}, expandedTo: 1, refreshAt: later}
	}
	end := func(op operation, out *outcome) *volumeState {
		v := mounted()
		v.end(&op, out, later)
		return v
	}
	want := mounted()
	require.Equal(t, want, end(operation{kind: doExpand, size: 2}, failed))
	require.Equal(t, want, end(operation{kind: doUnmount}, failed))
	want.remount = true
	require.Equal(t, want, end(operation{kind: doMount, again: true}, failed))
	want = mounted()
	want.expandedTo = 2
	require.Equal(t, want, end(operation{kind: doExpand, size: 2}, &outcome{size: 2}))
	require.Equal(t, &volumeState{since: later}, end(operation{kind: doUnmount}, &outcome{}))
	want = mounted()
	want.mounted, want.refreshAt = there, later.Add(time.Second)
	require.Equal(t, want, end(operation{kind: doMount, again: true}, &outcome{mounted: there}))
	v := &volumeState{found: true}
	v.end(&operation{kind: doMount}, &outcome{mounted: there}, now)
	require.Equal(t, &volumeState{state: StateMounted, since: now, mounted: there, refreshAt: later}, v)
	v = &volumeState{}
	v.end(&operation{kind: doMount}, failed, now)
	require.Equal(t, &volumeState{since: now}, v)
}

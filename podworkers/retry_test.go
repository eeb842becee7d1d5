package podworkers

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// W24: the pause after a call depends on its error.
func TestPause(t *testing.T) {
	now := time.Unix(5000, 0)
	in := func(d time.Duration) error { return RetryAt(errBoom, now.Add(d)) }
	join := errors.Join
	for _, tc := range []struct {
		name string
		err  error
		want time.Duration
	}{
		{"clean", nil, time.Minute},
		{"generic", errBoom, 10 * time.Second},
		{"not before 5s", in(5 * time.Second), 5 * time.Second},
		{"two, the earliest", join(errBoom, in(8*time.Second), join(in(5*time.Second))), 5 * time.Second},
		{"nested", RetryAt(in(3*time.Second), now.Add(7*time.Second)), 3 * time.Second},
		{"past", in(-time.Hour), 0},
		{"beyond the resync interval", in(time.Hour), time.Minute},
		{"a zero time has no effect", RetryAt(errBoom, time.Time{}), 10 * time.Second},
		{"network, aggregated", join(in(5*time.Second), join(errBoom, ErrNetworkNotReady)), time.Second},
		{"panic", &PanicError{Value: "x"}, 10 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := rigPolicy
			require.Equal(t, tc.want, p.after(classify(tc.err), now))
			p.jitter = func() float64 { return 0.999999999 }
			require.InDelta(t, 1.5*float64(tc.want), float64(p.after(classify(tc.err), now)), 1e3)
		})
	}
	require.NoError(t, RetryAt(nil, now))
}

// An error whose NotBefore is always in the past is retried at once, and then with a pause.
func TestPastRetryDoesNotSpin(t *testing.T) {
	r := newRig(t)
	r.update(create(podOf("a")))
	past := RetryAt(errBoom, r.now.Add(-time.Second))
	for i, s := range []struct {
		err  error
		want time.Duration
	}{
		{past, 0}, {past, hotRetry}, {past, hotRetry}, {past, hotRetry},
		{errBoom, 10 * time.Second}, {past, 0}, // a back-off resets it,
		{past, hotRetry}, {ErrNetworkNotReady, hotRetry}, {past, 0}, // any pause resets it,
		{past, hotRetry}, {nil, time.Minute}, {past, 0}, // and so does success
	} {
		r.end("a", false, s.err)
		require.Equal(t, s.want, r.pod("a").NextRetry.Sub(r.now), i)
		r.Wait(s.want)
		require.Equal(t, CallSyncPod, r.call("a"))
	}
}

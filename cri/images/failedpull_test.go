package images

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
)

func TestInspectError(t *testing.T) {
	s := newService()
	s.inspect = errors.New("disk on fire")
	events := &recorder{}
	_, err := newManager(t, Config{Service: s, Event: events.event}).Ensure(t.Context(), request("u", "a:1", v1.PullAlways))
	require.Equal(t, ReasonImageInspectError, reasonOf(t, err).Reason)
	require.ErrorIs(t, err, s.inspect)
	require.Equal(t, []string{"Warning InspectFailed spec.containers{c}"}, events.events)
	require.ErrorContains(t, err, `pod ns/pod-u, container "c"`)
}

// C23: a pod gets ErrImagePull, then ImagePullBackOff with the previous error's text. A second pod
// with the same image has its own back-off.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		s.set("a:1", errors.New("no such manifest"))
		events := &recorder{}
		m := newManager(t, Config{Service: s, Event: events.event})
		r := request("u", "a:1", "")
		for _, delay := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
			start := time.Now()
			_, err := m.Ensure(t.Context(), r)
			failed := reasonOf(t, err)
			require.Equal(t, ReasonErrImagePull, failed.Reason)
			require.Equal(t, start.Add(time.Second), failed.NotBefore(), "early, to report ImagePullBackOff")
			time.Sleep(delay*time.Second - 1)
			_, err = m.Ensure(t.Context(), r)
			held := reasonOf(t, err)
			require.Equal(t, ReasonImagePullBackOff, held.Reason)
			require.Equal(t, start.Add(delay*time.Second), held.NotBefore())
			var cause *Error
			require.ErrorAs(t, held.Err, &cause)
			require.Zero(t, cause.NotBefore(), "a caller that goes by the earliest time in the tree must find no other")
			require.Contains(t, held.Message, "no such manifest")
			time.Sleep(time.Nanosecond)
		}
		require.Len(t, s.pulled(), 7)
		_, err := m.Ensure(t.Context(), r)
		require.Equal(t, ReasonErrImagePull, reasonOf(t, err).Reason)
		require.Equal(t, ReasonErrImagePull, reasonOf(t, get(t, m, "other", "a:1", "")).Reason, "each pod has its own count")
		require.Equal(t, "Normal BackOff spec.containers{c}", events.events[2])

		time.Sleep(11 * time.Minute)
		_, err = m.Ensure(t.Context(), r)
		require.Equal(t, ReasonErrImagePull, reasonOf(t, err).Reason)
		_, err = m.Ensure(t.Context(), r)
		require.Equal(t, time.Now().Add(10*time.Second), reasonOf(t, err).NotBefore(), "forgotten after 600 s")
		require.Len(t, m.history.last, 1, "the other pod's failure is dropped too")
		require.Equal(t, 1, m.history.delays.Len())

		s.set("a:1", nil)
		time.Sleep(10 * time.Second)
		_, err = m.Ensure(t.Context(), r)
		require.NoError(t, err)
		require.Empty(t, m.history.last)
	})
}

// The runtime's own Canceled, without a cancelled context, is an ordinary failure.
func TestReasonsOfTheRuntime(t *testing.T) {
	for text, want := range map[string]string{
		"RegistryUnavailable: dial tcp":         ReasonRegistryUnavailable,
		"SignatureValidationFailed: no key":     ReasonSignatureValidationFailed,
		"cannot: RegistryUnavailable in middle": ReasonErrImagePull,
	} {
		for _, err := range []error{errors.New(text), status.Error(codes.Unknown, text), fmt.Errorf("pull: %w", status.Error(codes.Canceled, text))} {
			s := newService()
			s.set("a:1", err)
			got := get(t, newManager(t, Config{Service: s}), "u", "a:1", "")
			require.Equal(t, want, reasonOf(t, got).Reason, err)
			require.ErrorIs(t, got, err)
		}
	}
}

// A pull beyond the rate fails at once and counts as a failure.
func TestThrottle(t *testing.T) {
	serving(t, 0, Config{}, func(t *testing.T, s *service, m *Manager) {
		pull := func(i int) error {
			return get(t, m, "u", fmt.Sprintf("a:%d", i), "")
		}
		for i := range 10 {
			require.NoError(t, pull(i))
		}
		err := pull(10)
		require.ErrorIs(t, err, ErrThrottled)
		require.Equal(t, time.Now().Add(10*time.Second), reasonOf(t, pull(10)).NotBefore())
		time.Sleep(400 * time.Millisecond)
		require.NoError(t, pull(11))
		require.NoError(t, pull(12))
		require.ErrorIs(t, pull(13), ErrThrottled)
		require.Len(t, s.pulled(), 12)
		time.Sleep(time.Hour)
		for i := range 10 {
			require.NoError(t, pull(i+20))
		}
		require.ErrorIs(t, pull(30), ErrThrottled, "what was not used does not pile up")

		free := newManager(t, Config{Service: s, QPS: -1})
		for i := range 100 {
			require.NoError(t, get(t, free, "u", fmt.Sprintf("b:%d", i), ""))
		}
	})
}

// Forget drops all state of one pod and no state of another.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService()
		for _, image := range []string{"a:1", "b:1"} {
			s.set(image, errors.New("no such host"))
		}
		m := newManager(t, Config{Service: s, QPS: -1})
		for _, pod := range []string{"1", "11"} {
			for _, image := range []string{"a:1", "b:1"} {
				require.Error(t, get(t, m, pod, image, ""))
			}
		}
		require.NotEmpty(t, m.Explain("1"))
		m.Forget("1")
		require.Empty(t, m.Explain("1"))
		require.NotEmpty(t, m.Explain("11"))
		require.Len(t, m.history.last, 2)
		require.Equal(t, 2, m.history.delays.Len())
		_, err := m.Ensure(t.Context(), request("1", "a:1", ""))
		require.ErrorContains(t, err, "no such host", "a new pod has no back-off")
		m.Forget("1")
		m.Forget("11")
		m.Forget("never seen")
		require.Empty(t, m.history.last)
		require.Zero(t, m.history.delays.Len())
	})
}

package syncloop

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func admitterReturning(err error) Admitter {
	return AdmitterFunc(func(*v1.Pod, []*v1.Pod) error { return err })
}

func TestAdmitAll(t *testing.T) {
	no, wait := Reject("OutOfpods", "%d is too many", 3), errors.New("wait")
	var unset *Rejection
	require.EqualError(t, no, "OutOfpods: 3 is too many")
	panics := AdmitterFunc(func(*v1.Pod, []*v1.Pod) error { panic(wait) })
	for _, c := range []struct {
		admitters []Admitter
		want      error
	}{
		{nil, nil},
		{[]Admitter{admitterReturning(nil), admitterReturning(unset), admitterReturning(nil)}, nil},
		{[]Admitter{admitterReturning(nil), admitterReturning(no), admitterReturning(wait)}, no},
		{[]Admitter{admitterReturning(wait), admitterReturning(no)}, wait},
		{[]Admitter{admitterReturning(nil), panics}, wait},
	} {
		err := AdmitAll(c.admitters...).Admit(testPod("a", "a"), nil)
		require.ErrorIs(t, err, c.want)
	}
	require.ErrorContains(t, AdmitAll(admitterReturning(nil), panics).Admit(testPod("a", "a"), nil), "admitter 2 of 2 (syncloop.AdmitterFunc) panicked: wait")
}

// Each result of an Admitter has its effect on the pod.
func TestHandlerAdmissionResults(t *testing.T) {
	var unset *Rejection
	for _, c := range []struct {
		name                 string
		answer               error
		admitted, rejections bool
	}{
		{"nil", nil, true, false},
		{"a nil rejection", unset, true, false},
		{"a rejection", Reject("No", "no"), false, true},
		{"a rejection in a chain of errors", fmt.Errorf("quota: %w", Reject("No", "no")), false, true},
		{"another error", errors.New("later"), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rejections []Rejection
			h, w := newTestHandler(t, func(cfg *HandlerConfig) {
				cfg.Admit = admitterReturning(c.answer)
				cfg.OnReject = func(_ *v1.Pod, why Rejection) { rejections = append(rejections, why) }
			})
			h.HandlePodAdditions(t.Context(), []*v1.Pod{testPod("a", "a")})
			if c.admitted {
				require.Equal(t, []string{"create a"}, w.take())
				require.Empty(t, h.Unadmitted())
				return
			}
			require.Empty(t, w.take())
			require.Empty(t, h.ActivePods())
			require.Len(t, h.Unadmitted(), 1)
			require.Equal(t, c.rejections, h.Unadmitted()[0].Rejected)
			require.ErrorIs(t, h.Unadmitted()[0].Err, c.answer)
			require.Equal(t, c.rejections, len(rejections) == 1)
		})
	}
}

// A pod whose rejection cannot be recorded waits instead.
func TestHandlerOnRejectPanics(t *testing.T) {
	broken := true
	h, w := newTestHandler(t, func(cfg *HandlerConfig) {
		cfg.Admit = admitterReturning(Reject("No", "no"))
		cfg.OnReject = func(*v1.Pod, Rejection) {
			if broken {
				panic("no disk")
			}
		}
	})
	h.HandlePodAdditions(t.Context(), []*v1.Pod{testPod("a", "a")})
	require.ErrorContains(t, h.Unadmitted()[0].Err, "OnReject panicked: no disk")
	require.False(t, h.Unadmitted()[0].Rejected)
	broken = false
	require.NoError(t, h.HandlePodCleanups(t.Context()))
	require.True(t, h.Unadmitted()[0].Rejected)
	require.Equal(t, []string{"known a"}, w.take())
}

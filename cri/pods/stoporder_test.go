package pods

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
)

// C33: who waits for whom.
func TestWaitsFor(t *testing.T) {
	pod := initPod(testPod("app", "log"), "s1", "init", "s2", "s3")
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
	type waits = map[string][]string
	for _, tc := range []struct {
		name    string
		pod     *v1.Pod
		running []string
		want    waits
	}{
		{"all", pod, []string{"app", "log", "s1", "s2", "s3", "debug"},
			waits{"s3": {"app", "log"}, "s2": {"app", "log", "s3"}, "s1": {"app", "log", "s2"}}},
		{"what does not run blocks nobody", pod, []string{"log", "s1", "s2"},
			waits{"s2": {"log"}, "s1": {"log", "s2"}}},
		{"a gap among the sidecars keeps the order", pod, []string{"app", "s1", "s3"},
			waits{"s3": {"app"}, "s1": {"app", "s3"}}},
		{"sidecars only", pod, []string{"s1", "s3"}, waits{"s1": {"s3"}}},
		{"one sidecar only", pod, []string{"s1"}, waits{}},
		{"while it is initialised", pod, []string{"s1", "init"}, waits{}},
		{"ephemeral ones are not waited for", pod, []string{"s1", "debug"}, waits{}},
		{"no sidecars", testPod("app", "log"), []string{"app", "log"}, waits{}},
		{"nothing", pod, nil, waits{}},
		{"what is not in the spec", pod, []string{"gone", "s1"}, waits{}},
		{"orphan", nil, []string{"app", "s1"}, waits{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			running := map[string]bool{}
			for _, name := range tc.running {
				running[name] = true
			}
			require.Equal(t, tc.want, waitsFor(tc.pod, running))
		})
	}
}

// C34 and what else releases those who wait, or does not.
func TestTurns(t *testing.T) {
	pod := initPod(testPod("app"), "s1")
	twice := []ContainerKill{{Name: "app"}, {Name: "app"}, {Name: "s1"}}
	for _, tc := range []struct {
		name string
		done func(turns *turns, cancel func())
		took time.Duration
		code codes.Code
		err  error
	}{
		{"both instances", func(u *turns, _ func()) { u.done("app", nil); u.done("app", nil) }, 0, codes.OK, nil},
		{"one of two instances", func(u *turns, _ func()) { u.done("app", nil) }, 5 * time.Second, codes.OK, nil},
		{"a failed stop", func(u *turns, _ func()) { u.done("app", errors.New("no")); u.done("app", nil) }, 5 * time.Second, codes.OK, nil},
		{"the runtime is away", func(u *turns, _ func()) {
			u.done("app", status.Error(codes.Unavailable, "away"))
			u.done("app", status.Error(codes.Unavailable, "still"))
		}, 0, codes.Unavailable, nil},
		{"called off", func(_ *turns, cancel func()) { cancel() }, 0, codes.Unknown, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newTurns(pod, twice)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				begin := time.Now()
				require.NoError(t, u.wait(ctx, "app", time.Minute), "nobody is before it")
				tc.done(u, cancel)
				err := u.wait(ctx, "s1", 5*time.Second)
				require.Equal(t, tc.took, time.Since(begin))
				require.Equal(t, tc.code, status.Code(err))
				if tc.err != nil {
					require.ErrorIs(t, err, tc.err)
				}
			})
		})
	}
	require.NoError(t, newTurns(pod, twice).wait(t.Context(), "s1", -time.Second), "no time is no error")
}

package pods

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
)

// C33: sidecars end last, in reverse order, each within its own grace period.
func TestSidecarsEndLast(t *testing.T) {
	for _, tc := range []struct {
		name     string
		programs map[string]fake.Program
		handlers map[string]v1.LifecycleHandler
		before   func(ctx context.Context, call, target string) error
		grace    int64
		want     []string
	}{
		{
			name:  "at once when nothing takes time",
			grace: 30,
			want:  []string{"0s StopContainer app 30s", "0s StopContainer s2 30s", "0s StopContainer s1 30s", "0s StopPodSandbox"},
		},
		{
			name:     "a slow app eats the sidecars' time",
			programs: map[string]fake.Program{"app": slow(10 * time.Second), "s2": slow(5 * time.Second)},
			grace:    30,
			want:     []string{"0s StopContainer app 30s", "10s StopContainer s2 20s", "15s StopContainer s1 15s", "15s StopPodSandbox"},
		},
		{
			name:     "an app that does not end leaves 2 s",
			programs: map[string]fake.Program{"app": stubborn, "s2": stubborn, "s1": stubborn},
			grace:    30,
			want:     []string{"0s StopContainer app 30s", "30s StopContainer s1 2s", "30s StopContainer s2 2s", "32s StopPodSandbox"},
		},
		{
			name:     "all handlers begin at once",
			programs: map[string]fake.Program{"app": slow(5 * time.Second)},
			handlers: map[string]v1.LifecycleHandler{"app": execHandler("3"), "s2": execHandler("1"), "s1": execHandler("9")},
			grace:    30,
			want: []string{
				"0s exec app sleep 3", "0s exec s1 sleep 9", "0s exec s2 sleep 1",
				"3s StopContainer app 27s", "8s StopContainer s2 22s", "9s StopContainer s1 21s", "9s StopPodSandbox",
			},
		},
		{
			name:     "C34 what is gone keeps nobody",
			programs: map[string]fake.Program{"app": stubborn},
			before:   failing("StopContainer", "app ", status.Error(codes.NotFound, "gone")),
			grace:    30,
			want:     []string{"0s StopContainer app 30s", "0s StopContainer s2 30s", "0s StopContainer s1 30s", "0s StopPodSandbox"},
		},
		{
			name:   "a stop that failed keeps them",
			before: failing("StopContainer", "app ", status.Error(codes.Unknown, "no")),
			grace:  7,
			want:   []string{"0s StopContainer app 7s", "7s StopContainer s1 2s", "7s StopContainer s2 2s", "7s StopPodSandbox"},
		},
		{
			name:   "a runtime that is away is asked again in the same order",
			before: failing("StopContainer", "app ", status.Error(codes.Unavailable, "away")),
			grace:  7,
			want:   []string{"0s StopContainer app 7s"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, l := timed(t, fake.Config{Programs: fake.ByContainer(tc.programs, fake.SleepUntilStopped)})
				write := h.runtime.before
				h.runtime.before = func(ctx context.Context, call, target string) error {
					if err := write(ctx, call, target); err != nil || tc.before == nil {
						return err
					}
					return tc.before(ctx, call, target)
				}
				pod := initPod(testPod("app"), "s1", "s2")
				for name, handler := range tc.handlers {
					preStop(pod, name, handler)
				}
				status := runPod(t, h, pod)
				synctest.Wait()
				h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: status, GraceSeconds: &tc.grace})
				requireSameTimes(t, tc.want, l.take())
			})
		})
	}
}

// requireSameTimes compares timelines; what happens at one moment has no order,
// unless that moment is the beginning and the test is about order alone.
func requireSameTimes(t *testing.T, want, got []string) {
	t.Helper()
	ordered := true
	for _, line := range want {
		ordered = ordered && strings.HasPrefix(line, "0s Stop")
	}
	if ordered {
		require.Equal(t, want, got)
		return
	}
	require.ElementsMatch(t, want, got)
	require.True(t, strings.HasSuffix(got[len(got)-1], "StopPodSandbox"), "sandboxes come last: %v", got)
}

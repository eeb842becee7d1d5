package pods

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/probe"
)

// C30: StopContainer gets the grace period, 2 s at least; sandboxes come last.
func TestKillPod(t *testing.T) {
	for want, grace := range map[string]*int64{"30s": nil, "5s": ptr(int64(5)), "2s": ptr(int64(0))} {
		h := newHarness(t, fake.Config{})
		pod := testPod("a", "b")
		h.mustSync(pod)
		h.runtime.take()
		h.takeEvents()
		h.kill(pod, grace)
		calls := h.runtime.take()
		require.ElementsMatch(t, []string{"StopContainer a " + want, "StopContainer b " + want}, calls[:2])
		require.Equal(t, []string{"StopPodSandbox "}, calls[2:])
		require.ElementsMatch(t, []string{"Killing spec.containers{a}", "Killing spec.containers{b}"}, h.takeEvents())
		require.True(t, h.status(pod).Stopped())
		h.kill(pod, grace)
		require.Equal(t, []string{"StopPodSandbox "}, h.runtime.take(), "nothing to wait for")
	}
}

// A pod without a spec gets a second, which is two.
func TestKillOrphan(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	status := h.mustSync(pod)
	require.Equal(t, "web", status.Name)
	h.runtime.take()
	result := h.m.KillPod(t.Context(), KillRequest{Status: status})
	require.NoError(t, result.Err())
	require.Equal(t, []string{"StopContainer a 2s", "StopPodSandbox "}, h.runtime.take())
	require.Equal(t, "shop/web(0d1e)", result.Pod)
}

// C34: what is gone has stopped.
func TestKillNotFound(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	status := h.mustSync(pod)
	require.NoError(t, h.garbage.RemovePod(t.Context(), pod.UID, stopAll(t, h, pod)))
	result := h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: status})
	require.NoError(t, result.Err())
}

func stopAll(t *testing.T, h *harness, pod *v1.Pod) *pleg.PodStatus {
	t.Helper()
	h.kill(pod, ptr(int64(1)))
	return h.status(pod)
}

// stubborn ignores SIGTERM.
func stubborn(ctx context.Context, p *fake.Process) int {
	p.Signals()
	<-ctx.Done()
	return 0
}

// A pod takes as long as its slowest container, not longer; a shortened grace
// period counts at once (#83916).
func TestKillTakesItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{Programs: fake.Always(stubborn)})
		pod := testPod("a", "b")
		h.mustSync(pod)
		synctest.Wait()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		result := h.m.KillPod(ctx, KillRequest{Pod: pod, Status: h.status(pod)})
		require.Error(t, result.Err())
		require.Equal(t, 3*time.Second, time.Since(begin))
		require.Len(t, h.status(pod).Running(), 2, "an ended context kills nobody")
		require.NotContains(t, h.runtime.take(), "StopPodSandbox ")
		h.kill(pod, ptr(int64(4)))
		require.Equal(t, 7*time.Second, time.Since(begin))
	})
}

// A sandbox is stopped although a container refuses, but not while the runtime
// is away.
func TestKillFails(t *testing.T) {
	for code, stopped := range map[codes.Code]bool{codes.Unknown: true, codes.Unavailable: false} {
		h := newHarness(t, fake.Config{})
		pod := testPod("a", "b")
		h.mustSync(pod)
		h.runtime.take()
		h.runtime.before = func(_ context.Context, call, target string) error {
			if call == "StopContainer" && target == "a 30s" {
				return status.Error(code, "no")
			}
			return nil
		}
		result := h.m.KillPod(t.Context(), KillRequest{Pod: pod, Status: h.status(pod)})
		for _, e := range result.Entries {
			require.Equal(t, e.Action == ActionKillContainer && e.Target == "a", status.Code(errors.Unwrap(e.Err)) == code)
		}
		require.Equal(t, stopped, slices.Contains(h.runtime.take(), "StopPodSandbox "))
	}
}

// C16, C32: a container is replaced with the grace period of its probe; one that
// cannot be stopped is not started a second time.
func TestReplaceContainer(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a", "b")
	pod.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: ptr(int64(3))}
	first := h.mustSync(pod)
	h.runtime.take()
	request := SyncRequest{Pod: pod, Status: first, Probes: found(first.Newest("a"), probe.Liveness, probe.Failure)}
	h.runtime.before = func(_ context.Context, call, _ string) error {
		if call == "StopContainer" {
			return status.Error(codes.Unknown, "no")
		}
		return nil
	}
	result := h.m.SyncPod(t.Context(), request)
	require.Error(t, result.Err())
	require.Equal(t, []string{"StopContainer a 3s"}, h.runtime.take())
	h.runtime.before = nil
	result = h.m.SyncPod(t.Context(), request)
	require.NoError(t, result.Err())
	require.Equal(t, []string{"StopContainer a 3s", "CreateContainer a/1", "StartContainer a"}, h.runtime.take())
	require.Len(t, h.status(pod).Running(), 2)
}

package pods

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/pleg/observed"
	"github.com/podwright/podwright/probe"
)

func stopAll(t *testing.T, h *harness, pod *v1.Pod) *observed.Pod {
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

// C16, C32: a container is replaced with the grace period of its probe; one that
// cannot be stopped is not started a second time.
func TestReplaceContainer(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a", "b")
	pod.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: ptr(int64(3))}
	first := h.mustSync(pod)
	h.runtime.take()
	request := SyncRequest{Pod: pod, Status: first, Probes: found(first.Newest("a"), probe.Liveness, probe.Failure)}
	h.runtime.before = failing("StopContainer", "", status.Error(codes.Unknown, "no"))
	result := h.m.SyncPod(t.Context(), request)
	require.Error(t, result.Err())
	require.Equal(t, []string{"StopContainer a 3s"}, h.runtime.take())
	h.runtime.before = nil
	result = h.m.SyncPod(t.Context(), request)
	require.NoError(t, result.Err())
	require.Equal(t, []string{"StopContainer a 3s", "CreateContainer a/1", "StartContainer a"}, h.runtime.take())
	require.Len(t, h.status(pod).Running(), 2)
}

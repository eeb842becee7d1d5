package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright"
	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images"
	"github.com/podwright/podwright/pleg/observed"
)

// C1, C2, C4: the runtime calls of a sync, in order, also for a pod without changes.
func TestSyncCalls(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a", "b")
	var steps []string
	var readyIPs []string
	result := h.m.SyncPod(t.Context(), SyncRequest{
		Pod: pod, Status: h.status(pod),
		OnStep:         func(s string) { steps = append(steps, s) },
		OnSandboxReady: func(ips []string) { readyIPs = ips },
	})
	require.NoError(t, result.Err())
	require.True(t, result.Acted())
	require.False(t, result.Over())
	require.Equal(t, []string{
		"RunPodSandbox web/0", "CreateContainer a/0", "StartContainer a", "CreateContainer b/0", "StartContainer b",
	}, h.runtime.take())
	require.Equal(t, []string{
		"Created spec.containers{a}", "Started spec.containers{a}", "Created spec.containers{b}", "Started spec.containers{b}",
	}, h.takeEvents())
	require.Contains(t, steps, "creating the sandbox")
	status := h.status(pod)
	require.Equal(t, status.IPs, readyIPs)
	require.Len(t, readyIPs, 1)

	require.False(t, h.sync(pod).Acted(), "the pod is complete")

	pod.Spec.HostNetwork = true // C4
	h.mustSync(pod)
	require.Equal(t, "RunPodSandbox web/1", h.runtime.take()[3], "after two StopContainer and one StopPodSandbox")
	require.NotContains(t, h.takeEvents(), "SandboxChanged ")
}

// A dead sandbox is replaced, with an event on the pod.
func TestSandboxChanged(t *testing.T) {
	h := newHarness(t, fake.Config{})
	pod := testPod("a")
	first := h.mustSync(pod)
	require.NoError(t, h.runtime.RuntimeService.StopPodSandbox(t.Context(), first.Sandboxes[0].ID))
	h.takeEvents()
	second := h.mustSync(pod)
	require.Contains(t, h.takeEvents(), "SandboxChanged ")
	require.EqualValues(t, 1, second.Sandboxes[0].Attempt)
	require.EqualValues(t, 1, second.Newest("a").RestartCount)
	require.Len(t, second.Running(), 1)
}

// C5, C7, C15: a completed pod is stopped and does not start again.
func TestCompletedPodIsStopped(t *testing.T) {
	h := newHarness(t, fake.Config{Programs: fake.Always(fake.Exit(0))})
	pod := testPod("a")
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	h.mustSync(pod)
	waitExited(t, h, pod, 1)
	result := h.sync(pod)
	require.NoError(t, result.Err())
	require.True(t, result.Over())
	status := h.status(pod)
	require.Equal(t, observed.SandboxNotReady, status.Sandboxes[0].State)
	h.runtime.take()
	status = h.mustSync(pod)
	require.NotContains(t, h.runtime.take(), "RunPodSandbox web/1")
	require.Len(t, status.Containers, 1)
}

func waitExited(t *testing.T, h *harness, pod *v1.Pod, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		exited := 0
		for _, c := range h.status(pod).Containers {
			if c.State == observed.StateExited {
				exited++
			}
		}
		return exited == n
	}, patience, time.Millisecond)
}

const s = time.Second

// C22, C23: the reason and time of a pull in back-off reach the caller, and the second container
// of the pod starts.
func TestImageFailure(t *testing.T) {
	h := newHarness(t, fake.Config{})
	h.images.fail = func(r images.Request) error {
		if r.Container.Name == "a" {
			return &images.Error{Reason: images.ReasonErrImagePull, Message: "no such image"}
		}
		return nil
	}
	pod := testPod("a", "b")
	result := h.sync(pod)
	var failure *StartError
	require.ErrorAs(t, result.Err(), &failure)
	require.Equal(t, "a", failure.Container)
	require.Contains(t, h.takeEvents(), "Failed spec.containers{a}", "beside the events of the pull")
	require.Equal(t, map[string]podwright.Reason{"a": {Reason: "ErrImagePull", Message: "no such image"}}, h.m.StartFailures(pod.UID))
	require.Len(t, h.status(pod).Running(), 1)
	h.images.fail = nil
	h.mustSync(pod)
	require.Empty(t, h.m.StartFailures(pod.UID))
	h.m.recordFailure(pod.UID, &StartError{Container: "a", Reason: "x"})
	h.m.Forget(pod.UID)
	require.Empty(t, h.m.StartFailures(pod.UID))
}

// C38: if the container's name is still reserved, no other name is used; the reason stays, and so
// does the restart count.
func TestNameReserved(t *testing.T) {
	h := newHarness(t, fake.Config{Programs: fake.Always(fake.Exit(1))})
	pod := testPod("a")
	h.mustSync(pod)
	waitExited(t, h, pod, 1)
	h.runtime.before = failing("CreateContainer", "", status.Error(codes.AlreadyExists, `name "a_web_shop_0d1e_1" is reserved`))
	h.runtime.take()
	for range 3 {
		result := h.sync(pod)
		require.Error(t, result.Err())
		require.True(t, result.NotBefore().IsZero(), "no start, so no back-off")
		require.Equal(t, ReasonCreateContainerError, h.m.StartFailures(pod.UID)["a"].Reason)
		require.Equal(t, []string{"CreateContainer a/1"}, h.runtime.take())
	}
	h.runtime.before = nil
	require.EqualValues(t, 1, h.mustSync(pod).Newest("a").RestartCount)
}

// C28: the restart count continues after a runtime has lost its state.
func TestRestartCountFromLogs(t *testing.T) {
	h := newHarness(t, fake.Config{})
	h.cfg.Owner = cri.Owner{Unlabelled: true}
	h.restart()
	pod := testPod("a")
	dir := filepath.Join(h.dir, "pods", "shop_web_0d1e", "a")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, name := range []string{"0.log", "1.log.20240102-030405.gz"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	c := h.mustSync(pod).Newest("a")
	require.EqualValues(t, 2, c.RestartCount)
	require.Equal(t, filepath.Join(dir, "2.log"), c.LogPath)
}

func TestRestartCount(t *testing.T) {
	number := func(n int32) func(*observed.Container) { return func(c *observed.Container) { c.RestartCount = n } }
	for _, tc := range []struct {
		name  string
		in    []observed.Container
		count int32
		known bool
	}{
		{"nothing", nil, 0, false},
		{"another", []observed.Container{container("b", observed.StateExited, number(8))}, 0, false},
		{"exited", []observed.Container{container("a", observed.StateExited, number(3)), container("a", observed.StateExited, number(2))}, 4, true},
		{"clocks went back", []observed.Container{container("a", observed.StateExited, number(2)), container("a", observed.StateExited, number(3))}, 4, true},
		{"created gives up its number", []observed.Container{container("a", observed.StateCreated, number(4)), container("a", observed.StateExited, number(3))}, 4, true},
		{"only created", []observed.Container{container("a", observed.StateCreated, number(4))}, 4, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			count, known := restartCount(observedPod(nil, tc.in...), "a")
			require.Equal(t, tc.count, count)
			require.Equal(t, tc.known, known)
		})
	}
}

// C48: a failure after cancellation is not recorded. A call in progress may finish; a hanging
// call is cancelled after stepGrace.
func TestCancelled(t *testing.T) {
	ending := errors.New("termination requested")
	for _, call := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
		for _, hangs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s hangs=%t", call, hangs), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newHarness(t, fake.Config{})
					if call == "RunPodSandbox" && hangs {
						h.cfg.Metrics.OnSandboxStart = func(string, time.Duration, error) { t.Error("counted") }
						h.restart()
					}
					pod := testPod("a", "b")
					ctx, cancel := context.WithCancelCause(t.Context())
					h.runtime.before = func(ctx context.Context, c, _ string) error {
						if c != call {
							return nil
						}
						cancel(ending)
						if !hangs {
							time.Sleep(s)
							return ctx.Err()
						}
						<-ctx.Done()
						return ctx.Err()
					}
					begin := time.Now()
					result := h.m.SyncPod(ctx, SyncRequest{Pod: pod, Status: h.status(pod)})
					require.ErrorIs(t, result.Err(), ending)
					require.ErrorIs(t, result.Err(), context.Canceled)
					require.Empty(t, h.m.StartFailures(pod.UID))
					require.NotContains(t, h.takeEvents(), "FailedCreatePodSandBox ")
					if hangs {
						require.Equal(t, 5*s, time.Since(begin))
					} else {
						require.Equal(t, s, time.Since(begin))
						require.Len(t, h.status(pod).Sandboxes, 1, "the call was finished, its effect is known")
					}
					h.runtime.before, h.cfg.Metrics = nil, Metrics{}
					h.restart()
					require.Len(t, h.mustSync(pod).Running(), 2)
				})
			})
		}
	}
}

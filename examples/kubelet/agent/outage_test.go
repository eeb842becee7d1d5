package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

type hanging struct {
	mu    sync.Mutex
	what  func(call string) bool
	calls atomic.Int32
}

func (h *hanging) set(what func(call string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.what = what
}

func (h *hanging) intercept(ctx context.Context, call string, _ any) error {
	h.calls.Add(1)
	h.mu.Lock()
	hangs := h.what != nil && h.what(call)
	h.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func everything(string) bool { return true }

// An agent whose runtime hangs stops in time and without an error at any point, and makes
// no calls afterwards. The next agent continues.
func TestStopWhileTheRuntimeHangs(t *testing.T) {
	both := []string{"", "PodSandboxStatus", "ListContainers"}
	for name, c := range map[string]struct {
		change func(*world)
		calls  []string
	}{
		"idle":     {func(*world) {}, nil},
		"starting": {func(w *world) { w.set(append(w.desired, podOf("2", v1.RestartPolicyAlways, "c"))...) }, []string{"RunPodSandbox", "CreateContainer", "StartContainer"}},
		"removing": {func(w *world) { w.set() }, []string{"StopContainer", "StopPodSandbox", "RemoveContainer"}},
	} {
		for _, call := range append(c.calls, both...) {
			t.Run(name+call, func(t *testing.T) {
				h := &hanging{}
				inWorld(t, fake.Config{Intercept: h.intercept}, func(w *world) {
					w.set(podOf("1", v1.RestartPolicyAlways, "a", "b"))
					w.startFor(20 * time.Second)
					h.set(func(got string) bool { return call == "" || got == call })
					c.change(w)
					w.Sleep(50 * time.Second)
					if call == "" {
						require.Error(w.t, w.agent.runtimeCheck())
					}
					begin := time.Now()
					w.stop()
					require.LessOrEqual(w.t, time.Since(begin), 10*time.Second)
					before := h.calls.Load()
					w.Sleep(time.Minute)
					require.Equal(w.t, before, h.calls.Load(), "calls after the end")
					h.set(nil)
					w.startFor(3 * time.Minute)
					require.Len(w.t, w.Sandboxes(), len(w.desired))
					running := w.Running()
					switch name {
					case "removing":
						w.requireNothingLeft()
					case "starting":
						require.Equal(w.t, []uint32{0}, running["c"])
						fallthrough
					default:
						require.Equal(w.t, []uint32{0}, running["a"])
					}
				})
			})
		}
	}
}

// A pod whose calls hang does not delay the start or the end of other pods.
func TestHangingPodDelaysNoOther(t *testing.T) {
	for _, call := range []string{"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"} {
		t.Run(call, func(t *testing.T) {
			inWorld(t, fake.Config{}, func(w *world) {
				var hung atomic.Bool
				w.calls.Intercept(func(ctx context.Context, got string, do func() error) error {
					if got == call && hung.CompareAndSwap(false, true) {
						<-ctx.Done()
						return ctx.Err()
					}
					return do()
				})
				w.set(podOf("1", v1.RestartPolicyAlways, "a"))
				w.startFor(5 * time.Second)
				w.set()
				w.Sleep(5 * time.Second)
				require.True(w.t, hung.Load())
				w.set(podOf("2", v1.RestartPolicyAlways, "b"))
				w.Sleep(5 * time.Second)
				require.Equal(w.t, []uint32{0}, w.Running()["b"])
				w.requireLoopIsFree()
				w.set()
				w.Sleep(10 * time.Second)
				require.Empty(w.t, w.Running()["b"])
				require.NoDirExists(w.t, w.agent.in.folders.pod("2"))
			})
		})
	}
}

func (w *world) requireLoopIsFree() {
	w.t.Helper()
	require.NoError(w.t, w.agent.syncer.Loop().CheckHealth())
	require.Empty(w.t, w.agent.syncer.Loop().Status().Doing, "the sync loop waits for the runtime")
}

// An orphan that cannot be observed does not delay other pods.
func TestHangingOrphanDelaysNoOther(t *testing.T) {
	hanging := ""
	intercept := func(ctx context.Context, _ string, request any) error {
		if r, ok := request.(*runtimeapi.PodSandboxStatusRequest); ok && r.PodSandboxId == hanging {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	inWorld(t, fake.Config{Intercept: intercept}, func(w *world) {
		w.set(podOf("1", v1.RestartPolicyAlways, "a"))
		w.startFor(5 * time.Second)
		w.stop()
		hanging = w.Sandboxes()[0].Id
		w.set()
		w.startFor(30 * time.Second)
		w.requireLoopIsFree()
		w.set(podOf("2", v1.RestartPolicyAlways, "b"))
		w.Sleep(5 * time.Second)
		require.Contains(w.t, w.Running(), "b")
	})
}

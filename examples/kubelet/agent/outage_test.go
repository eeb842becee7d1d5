package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
)

// hanging is a runtime of which every call, or every call about something, hangs
// while it is told so.
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

// With a runtime that does not answer, whatever the agent is at, it stops within
// its time and without an error, and asks for nothing afterwards. The next agent
// goes on where it was.
func TestStopWhileTheRuntimeHangs(t *testing.T) {
	for name, change := range map[string]func(*world){
		"idle":     func(*world) {},
		"starting": func(w *world) { w.set(append(w.desired, podOf("2", v1.RestartPolicyAlways, "c"))...) },
		"removing": func(w *world) { w.set() },
	} {
		for _, call := range []string{"", "RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemoveContainer", "PodSandboxStatus", "ListContainers"} {
			t.Run(name+call, func(t *testing.T) {
				h := &hanging{}
				inWorld(t, fake.Config{Intercept: h.intercept}, func(w *world) {
					w.set(podOf("1", v1.RestartPolicyAlways, "a", "b"))
					w.start()
					w.sleep(20 * time.Second)
					if call == "" {
						h.set(everything)
					} else {
						h.set(func(c string) bool { return c == call })
					}
					change(w)
					w.sleep(50 * time.Second)
					if call == "" {
						require.Error(w.t, w.agent.runtimeCheck())
					}
					begin := time.Now()
					w.stop()
					require.LessOrEqual(w.t, time.Since(begin), 10*time.Second)
					before := h.calls.Load()
					w.sleep(time.Minute)
					require.Equal(w.t, before, h.calls.Load(), "calls after the end")
					h.set(nil)
					w.start()
					w.sleep(3 * time.Minute)
					if len(w.desired) == 0 {
						w.requireNothingLeft()
						return
					}
					require.Len(w.t, w.sandboxes(), len(w.desired))
					require.Equal(w.t, []uint32{0}, w.running()["a"])
					if len(w.desired) == 2 {
						require.Equal(w.t, []uint32{0}, w.running()["c"])
					}
				})
			})
		}
	}
}

// A pod whose calls hang keeps no other pod from starting or ending.
func TestOnePodHangs(t *testing.T) {
	for _, call := range []string{"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"} {
		t.Run(call, func(t *testing.T) {
			inWorld(t, fake.Config{}, func(w *world) {
				first := podOf("1", v1.RestartPolicyAlways, "a")
				var hung atomic.Bool
				w.calls.Intercept(func(ctx context.Context, got string, do func() error) error {
					if got == call && hung.CompareAndSwap(false, true) {
						<-ctx.Done()
						return ctx.Err()
					}
					return do()
				})
				w.set(first)
				w.start()
				w.sleep(5 * time.Second)
				w.set()
				w.sleep(5 * time.Second)
				require.True(w.t, hung.Load())
				w.set(podOf("2", v1.RestartPolicyAlways, "b"))
				w.sleep(5 * time.Second)
				require.Equal(w.t, []uint32{0}, w.running()["b"])
				require.NoError(w.t, w.agent.loop.CheckHealth())
				require.Empty(w.t, w.agent.loop.Status().Doing)
				w.set()
				w.sleep(10 * time.Second)
				require.Empty(w.t, w.running()["b"])
				require.NoDirExists(w.t, w.agent.folders.pod("2"))
			})
		})
	}
}

// A runtime that comes back without anything: what should run runs again, with
// the restarts counted; what has completed does not run again.
func TestRuntimeLosesItsState(t *testing.T) {
	var runs atomic.Int32
	once := func(context.Context, *fake.Process) int { runs.Add(1); return 0 }
	inWorld(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"b": once}, fake.SleepUntilStopped)}, func(w *world) {
		w.set(podOf("1", v1.RestartPolicyAlways, "a"), podOf("2", v1.RestartPolicyNever, "b"))
		w.start()
		w.sleep(20 * time.Second)
		for _, sb := range w.sandboxes() {
			require.NoError(w.t, w.runtime.StopPodSandbox(w.t.Context(), sb.Id))
			require.NoError(w.t, w.runtime.RemovePodSandbox(w.t.Context(), sb.Id))
		}
		w.sleep(2 * time.Minute)
		require.Equal(w.t, map[string][]uint32{"a": {1}}, w.running())
		require.EqualValues(w.t, 1, runs.Load())
		for _, uid := range []types.UID{"1", "2"} {
			require.DirExists(w.t, w.agent.folders.pod(uid))
		}
		require.Equal(w.t, v1.PodSucceeded, w.agent.statuses.Get("2").Phase)
		w.set()
		w.sleep(2 * time.Minute)
		w.requireNothingLeft()
	})
}

package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/pods"
	"github.com/podwright/podwright/podworkers"
)

func counting(n *atomic.Int32, programs fake.Resolver) fake.Resolver {
	return func(ctx context.Context, p *fake.Process) (fake.Program, error) {
		n.Add(1)
		return programs(ctx, p)
	}
}

// A manifest that disappears and comes back is a new pod, although its UID is the same. A completed
// pod runs again, however long the manifest was missing. So does a pod that was still running, at
// any stage of its end. The end of the old pod removes nothing of the new one.
func TestPodComesBack(t *testing.T) {
	for _, completed := range []bool{true, false} {
		program, phase, left := ignoreTERM, v1.PodRunning, map[string][]uint32{"a": {0}}
		if completed {
			program, phase, left = fake.Exit(0), v1.PodSucceeded, map[string][]uint32{}
		}
		for _, gone := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond, 10 * time.Second} {
			t.Run(fmt.Sprint(phase, gone), func(t *testing.T) {
				var runs atomic.Int32
				inWorld(t, fake.Config{Programs: counting(&runs, fake.Always(program))}, func(w *world) {
					pod := podOf("1", v1.RestartPolicyNever, "a")
					w.set(pod)
					w.startFor(20 * time.Second)
					require.EqualValues(w.t, 1, runs.Load())
					require.Equal(w.t, phase, w.agent.syncer.Statuses().Get("1").Phase)
					w.set()
					w.Sleep(gone)
					w.set(pod)
					w.Sleep(30 * time.Second)
					require.EqualValues(w.t, 2, runs.Load())
					require.Equal(w.t, phase, w.agent.syncer.Statuses().Get("1").Phase)
					require.Equal(w.t, left, w.Running())
					require.Len(w.t, w.Sandboxes(), 1)
					require.DirExists(w.t, filepath.Join(w.agent.in.folders.pod("1"), "containers", "a"))
					require.FileExists(w.t, filepath.Join(pods.LogDir(w.logs(), "ns", "pod-1", "1"), "a", "0.log"))
					w.set()
					w.Sleep(2 * time.Minute)
					w.requireNothingLeft()
				})
			})
		}
	}
}

// A start that the agent has abandoned may take effect after the pod was observed as stopped. The
// container is then stopped, too, and the pod finishes.
func TestStartTakesEffectLate(t *testing.T) {
	for _, call := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
		for _, late := range []time.Duration{20 * time.Millisecond, 3 * time.Second, 9 * time.Second, 60 * time.Second} {
			t.Run(call+late.String(), func(t *testing.T) {
				inWorld(t, fake.Config{}, func(w *world) {
					begun, done := make(chan struct{}), make(chan struct{})
					hung := false
					w.calls.Intercept(func(ctx context.Context, got string, do func() error) error {
						if got != call || hung {
							time.Sleep(time.Second)
							return do()
						}
						hung = true
						close(begun)
						<-ctx.Done()
						go func() {
							defer close(done)
							time.Sleep(late)
							_ = do()
						}()
						return ctx.Err()
					})
					w.set(podOf("1", v1.RestartPolicyAlways, "a"))
					w.start()
					<-begun
					w.set()
					<-done
					w.Sleep(2 * time.Minute)
					w.requireNothingLeft()
				})
			})
		}
	}
}

// While the desired pods are unknown, because the source cannot be read or does not exist, no pod
// is stopped and nothing is removed.
func TestNothingIsTouchedBeforeSourcesReport(t *testing.T) {
	inWorld(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"b": fake.Exit(0)}, fake.SleepUntilStopped)}, func(w *world) {
		w.set(podOf("1", v1.RestartPolicyAlways, "a"), podOf("2", v1.RestartPolicyNever, "b"))
		w.startFor(5 * time.Second)
		w.stop()
		w.silent = true
		w.startFor(5 * time.Minute)
		require.Len(w.t, w.Running(), 1)
		require.Len(w.t, w.Containers(), 2)
		require.Len(w.t, w.Sandboxes(), 2)
		for _, uid := range []types.UID{"1", "2"} {
			require.DirExists(w.t, w.agent.in.folders.pod(uid))
			require.DirExists(w.t, pods.LogDir(w.logs(), "ns", "pod-"+string(uid), uid))
		}
		require.NoError(w.t, w.agent.in.sources.merger.Set("file", nil, w.agent.in.dirty.Emit))
		w.Sleep(2 * time.Minute)
		w.requireNothingLeft()
	})
}

// If a pod that may run only once loses its sandbox before all of its containers have run, it fails
// with a reason instead of staying pending.
func TestSandboxLostDuringStart(t *testing.T) {
	once := map[string]fake.Program{"a": fake.Exit(0)}
	inWorld(t, fake.Config{Programs: fake.ByContainer(once, fake.SleepUntilStopped)}, func(w *world) {
		var created atomic.Int32
		w.calls.Intercept(func(_ context.Context, call string, do func() error) error {
			if call == "CreateContainer" && created.Add(1) > 1 {
				return errors.New("refused")
			}
			return do()
		})
		w.set(podOf("1", v1.RestartPolicyNever, "a", "b"))
		w.startFor(5 * time.Second)
		require.Equal(w.t, v1.PodPending, w.agent.syncer.Statuses().Get("1").Phase)
		require.NoError(w.t, w.runtime.StopPodSandbox(w.t.Context(), w.Sandboxes()[0].Id))
		w.Sleep(20 * time.Second)
		w.requireFailed("1", "SandboxLost")
		require.Equal(w.t, podworkers.StateFinished, w.agent.syncer.Workers().State("1").State)
		w.set()
		w.Sleep(2 * time.Minute)
		w.requireNothingLeft()
	})
}

// A pod that failed before it had any resources leaves no traces, not even in memory.
func TestFailedPodLeavesNoTraces(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		pod.Spec.HostNetwork, pod.Spec.ActiveDeadlineSeconds = false, new(int64(5))
		require.NoError(w.t, w.runtime.SetCondition(runtimeapi.NetworkReady, false, "NoPlugin", "no network plugin"))
		w.set(pod)
		w.startFor(2 * time.Minute)
		require.Equal(w.t, v1.PodFailed, w.agent.syncer.Statuses().Get("1").Phase)
		require.Equal(w.t, []types.UID{"1"}, w.agent.syncer.Remembered())
		w.set()
		w.Sleep(time.Minute)
		w.requireNothingLeft()
	})
}

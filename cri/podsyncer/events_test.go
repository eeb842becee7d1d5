package podsyncer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/podworkers/stages"
	"github.com/podwright/podwright/podworkers/stages/stagestest"
	"github.com/podwright/podwright/syncloop"
)

// A failed observation of an ending pod is an event on the pod.
func TestFailedObservationsOfAnEndAreEvents(t *testing.T) {
	for name, begin := range map[string]func(w *harness, fails, failsThen *atomic.Bool){
		"before the stop": func(w *harness, fails, _ *atomic.Bool) { // an agent that has not observed yet
			fails.Store(true)
			w.stop()
			w.set()
			w.start()
		},
		"after it": func(w *harness, _, failsThen *atomic.Bool) {
			failsThen.Store(true)
			w.set()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var fails, failsThen atomic.Bool
			intercept := func(_ context.Context, call string, _ any) error {
				if call == "StopPodSandbox" && failsThen.CompareAndSwap(true, false) {
					fails.Store(true)
					time.AfterFunc(time.Second/2, func() { fails.Store(false) }) // before the next try
				}
				if fails.Load() && (call == "PodSandboxStatus" || call == "ContainerStatus") {
					return errors.New("not now")
				}
				return nil
			}
			inHarness(t, fake.Config{Intercept: intercept}, func(w *harness) {
				w.run(5*time.Second, newPod("1", v1.RestartPolicyAlways, "a"))
				begin(w, &fails, &failsThen)
				w.Sleep(5 * time.Second)
				require.NotEmpty(w.t, w.events.of("1", reasonFailedSync))
				require.Equal(w.t, v1.EventTypeWarning, w.events.of("1", reasonFailedSync)[0].kind)
				fails.Store(false)
				w.Sleep(2 * time.Minute)
				w.requireNothingLeft()
			})
		})
	}
}

// Failures of the agent itself are events on the pod, like failures of the runtime. A pod on the
// host network does not wait for the pod network (N5).
func TestSyncerRecordsEvents(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		w.networkReady = func() error { return errors.New("no plugin") }
		pod := newPod("1", v1.RestartPolicyAlways, "a")
		pod.Spec.HostNetwork = false
		w.run(10*time.Second, pod, newPod("2", v1.RestartPolicyAlways, "b"))
		require.Equal(t, map[string][]uint32{"b": {0}}, w.Running(), "only who needs no network of its own")
		require.GreaterOrEqual(t, len(w.events.of("1", reasonNetworkNotReady)), 6)
		w.networkReady = nil
		w.crash()
		w.start()
		w.Sleep(10 * time.Second)
		require.Len(t, w.Running(), 2)
	})
	inHarness(t, fake.Config{}, func(w *harness) {
		w.start()
		require.NoError(t, os.MkdirAll(filepath.Dir(w.agent.folders.Pod("1")), 0o750))
		require.NoError(t, os.WriteFile(w.agent.folders.Pod("1"), nil, 0o600))
		w.at("StopContainer", 1, func(context.Context) error { return errors.New("busy") })
		w.set(newPod("1", v1.RestartPolicyAlways, "a"), newPod("2", v1.RestartPolicyAlways, "b"))
		w.Sleep(5 * time.Second)
		require.Len(t, w.events.of("1", reasonFailedPrepare), 1)
		require.NoError(t, os.Remove(w.agent.folders.Pod("1")))
		w.set(newPod("1", v1.RestartPolicyAlways, "a"))
		w.Sleep(5 * time.Second)
		require.Len(t, w.events.of("2", reasonFailedKillPod), 1)
		w.end(time.Minute)
	})
}

// refused is a stage whose error sets its event and the time of its retry.
type refused struct{ stages.Stage }

func (refused) Prepare(context.Context, *v1.Pod) error {
	return podworkers.RetryAt(failedMount{errors.New("boom")}, time.Now().Add(20*time.Second))
}

type failedMount struct{ error }

func (failedMount) EventReason() string { return "FailedMount" }

func (failedMount) EventMessage() string { return "it booms" }

// full is a stage that rejects pods for lack of room.
type full struct{ stages.Stage }

func (full) Prepare(context.Context, *v1.Pod) error {
	return fmt.Errorf("volume: %w", syncloop.Reject("TooMany", "there are %d", 3))
}

// A stage may reject a pod, which then has failed for good; but not a running pod. The rejection is
// the only event.
func TestStageRejects(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		runs, rejected := newPod("1", v1.RestartPolicyAlways, "a"), newPod("2", v1.RestartPolicyAlways, "a")
		w.run(time.Second, runs)
		w.stop()
		w.stages = []stages.Entry{{Name: "volumes", Release: stages.Stopped, Stage: full{stagestest.NewMemory()}}}
		w.run(time.Minute, runs, rejected)
		status := w.agent.statuses.Get("2")
		require.Equal(t, v1.PodFailed, status.Phase)
		require.Equal(t, "TooMany", status.Reason)
		require.Equal(t, "Pod was rejected: there are 3", status.Message)
		require.Equal(t, v1.PodRunning, w.agent.statuses.Get("1").Phase)
		require.Len(t, w.events.of("2", ""), 1)
		require.Len(t, w.events.of("2", "TooMany"), 1)
	})
}

// An error may set the reason and message of its event, and the time of the retry. The conditions of
// such a pod, for example with a missing ConfigMap as a volume, are equal to upstream's: a pod with
// init containers is scheduled, one without also initialized.
func TestStageNamesItsEvent(t *testing.T) {
	inHarness(t, fake.Config{}, func(w *harness) {
		w.stages = []stages.Entry{{Name: "volumes", Release: stages.Stopped, Stage: refused{stagestest.NewMemory()}}}
		withInit := newPod("2", v1.RestartPolicyAlways, "a")
		withInit.Spec.InitContainers = []v1.Container{{Name: "i", Image: "i"}}
		w.run(31*time.Second, newPod("1", v1.RestartPolicyAlways, "a"), withInit)
		for uid, initialized := range map[types.UID]v1.ConditionStatus{"1": v1.ConditionTrue, "2": v1.ConditionFalse} {
			for condition, want := range map[v1.PodConditionType]v1.ConditionStatus{
				v1.PodScheduled: v1.ConditionTrue, v1.PodReadyToStartContainers: v1.ConditionFalse, v1.PodInitialized: initialized,
				v1.ContainersReady: v1.ConditionFalse, v1.PodReady: v1.ConditionFalse,
			} {
				require.Equal(t, want, w.condition(uid, condition), "pod %s: %s", uid, condition)
			}
		}
		seen := w.events.of("1", "FailedMount")
		require.Len(t, seen, 2)
		require.Equal(t, "it booms", seen[0].message)
		require.GreaterOrEqual(t, seen[1].at.Sub(seen[0].at), 20*time.Second)
	})
}

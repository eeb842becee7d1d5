package agent

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/internal/testkit/testagent"
	"github.com/podwright/podwright/status"
)

func (w *world) condition(uid types.UID, t v1.PodConditionType) v1.ConditionStatus {
	return testagent.Condition(w.agent.syncer.Statuses().Get(uid), t)
}

func (w *world) container(uid types.UID, name string) v1.ContainerStatus {
	w.t.Helper()
	return testagent.Container(w.t, w.agent.syncer.Statuses().Get(uid), name)
}

func (w *world) report(name string) server.PodReport {
	w.t.Helper()
	for _, s := range w.agent.syncer.Workers().Pods() {
		if s.Name == name {
			return w.agent.podReport(s)
		}
	}
	w.t.Fatalf("no report of pod %s", name)
	return server.PodReport{}
}

func (w *world) requireFailed(uid types.UID, reason string) {
	w.t.Helper()
	s := w.agent.syncer.Statuses().Get(uid)
	require.Equal(w.t, []string{string(v1.PodFailed), reason}, []string{string(s.Phase), s.Reason})
}

// The active deadline of a pod continues while the agent is down.
func TestActiveDeadlineAcrossARestart(t *testing.T) {
	for name, down := range map[string]time.Duration{"during": 30 * time.Second, "after": 10 * time.Second} {
		t.Run("it passes "+name+" the restart", func(t *testing.T) {
			inWorld(t, fake.Config{}, func(w *world) {
				pod := podOf("1", v1.RestartPolicyAlways, "a")
				pod.Spec.ActiveDeadlineSeconds = new(int64(60))
				w.set(pod)
				w.startFor(40 * time.Second)
				w.crash()
				w.Sleep(down)
				w.start()
				if left := 20*time.Second - down; left > 0 {
					w.Sleep(left - 10*time.Millisecond)
					require.Equal(t, v1.PodRunning, w.agent.syncer.Statuses().Get("1").Phase)
					w.Sleep(10 * time.Millisecond) // exact, except for the time of the start
				}
				w.Sleep(100 * time.Millisecond)
				w.requireFailed("1", status.ReasonDeadlineExceeded)
				w.Sleep(time.Minute)
				require.Empty(t, w.Running())
			})
		})
	}
}

// C1, C13: while a pod initialises, its report names the reason. Afterwards there is no
// explanation.
func TestReportShowsInitialization(t *testing.T) {
	inWorld(t, fake.Config{Programs: fake.ByContainer(map[string]fake.Program{"i": after(20*time.Second, 0)}, fake.SleepUntilStopped)}, func(w *world) {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		pod.Spec.InitContainers = podOf("1", "", "s", "i").Spec.Containers
		pod.Spec.InitContainers[0].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		w.set(pod)
		w.start()
		requireReport := func(phase v1.PodPhase, why string, containers ...string) {
			r := w.report("pod-1")
			var states []string
			for _, c := range r.Containers {
				states = append(states, c.Kind+" "+c.Name+" "+c.State)
			}
			require.Equal(t, why, r.Why)
			require.Equal(t, containers, states)
			require.Equal(t, phase, w.agent.syncer.Statuses().Get("1").Phase)
		}
		w.Sleep(10 * time.Second)
		requireReport(v1.PodPending, "init container i is running", "sidecar s running", "init i running", " a waiting")
		w.Sleep(15 * time.Second)
		requireReport(v1.PodRunning, "", "sidecar s running", "init i terminated", " a running")
		w.set()
		w.Sleep(10 * time.Second)
		w.requireNothingLeft()
		require.Empty(t, w.agent.syncer.Explain("1"))
	})
}

// A crash loop shows how the container ended, not only that it waits.
func TestReportShowsExits(t *testing.T) {
	end := &v1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: "no such table\n"}
	waiting := containerReport("", nil, v1.ContainerStatus{
		Name: "a", RestartCount: 2,
		State:                v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: v1.ContainerState{Terminated: end},
	}, kill{})
	require.Equal(t, server.ContainerReport{
		Name: "a", State: "waiting", Reason: "CrashLoopBackOff", Restarts: 2, LastEnd: "exit code 3 (Error): no such table",
		LastExit: &server.ExitReport{Code: 3, Reason: "Error", Message: "no such table\n"},
	}, waiting)
	over := containerReport("", nil, v1.ContainerStatus{Name: "b", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed"}}}, kill{})
	require.Equal(t, server.ContainerReport{
		Name: "b", State: "terminated", Reason: "Completed", Message: "exit code 0 (Completed)",
		LastExit: &server.ExitReport{Reason: "Completed", Cause: "ended by itself"},
	}, over)
}

// W30: the runtime returns no list, and a worker waits for an observation of its pod. The deletion
// of the pod ends the wait, and the pod is stopped on the basis of the last observation.
func TestStopWhileObservationStalls(t *testing.T) {
	h := &hanging{}
	inWorld(t, fake.Config{Intercept: h.intercept}, func(w *world) {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		w.set(pod)
		w.startFor(20 * time.Second)
		stops := make(chan time.Time, 8)
		w.calls.Intercept(func(_ context.Context, call string, do func() error) error {
			if call == "StopContainer" {
				stops <- time.Now()
			}
			return do()
		})
		h.set(func(call string) bool { return strings.HasPrefix(call, "List") })
		changed := pod.DeepCopy()
		changed.Labels = map[string]string{"x": "y"}
		w.set(changed)
		w.Sleep(5 * time.Second)
		require.Equal(w.t, "SyncPod: observing the runtime", w.report("pod-1").Step)
		require.Empty(w.t, stops)
		deleted := time.Now()
		w.set()
		w.Sleep(5 * time.Second)
		require.Len(w.t, stops, 1)
		require.Less(w.t, (<-stops).Sub(deleted), time.Second)
		h.set(nil)
		w.Sleep(3 * time.Minute)
		w.requireNothingLeft()
	})
}

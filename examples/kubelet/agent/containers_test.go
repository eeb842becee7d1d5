package agent

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/server"
)

func (w *world) report(name string) server.PodReport {
	w.t.Helper()
	for _, s := range w.agent.workers.Pods() {
		if s.Name == name {
			return w.agent.podReport(s)
		}
	}
	w.t.Fatalf("no report of pod %s", name)
	return server.PodReport{}
}

// C1, C13: while a pod initialises, its report says what it waits for; afterwards
// there is nothing to explain.
func TestReportTellsOfInitialisation(t *testing.T) {
	programs := map[string]fake.Program{
		"i": func(ctx context.Context, _ *fake.Process) int {
			select {
			case <-time.After(20 * time.Second):
				return 0
			case <-ctx.Done():
				return 1
			}
		},
	}
	inWorld(t, fake.Config{Programs: fake.ByContainer(programs, fake.SleepUntilStopped)}, func(w *world) {
		pod, always := podOf("1", v1.RestartPolicyAlways, "a"), v1.ContainerRestartPolicyAlways
		for _, name := range []string{"s", "i"} {
			c := pod.Spec.Containers[0]
			c.Name = name
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		}
		pod.Spec.InitContainers[0].RestartPolicy = &always
		w.set(pod)
		w.start()
		w.sleep(10 * time.Second)
		r := w.report("pod-1")
		require.Equal(t, "init container i is running", r.Why)
		require.Equal(t, []string{"sidecar s running", "init i running", " a waiting"}, kinds(r))
		require.Equal(t, v1.PodPending, w.agent.statuses.Get("1").Phase)
		w.sleep(15 * time.Second)
		r = w.report("pod-1")
		require.Empty(t, r.Why)
		require.Equal(t, []string{"sidecar s running", "init i terminated", " a running"}, kinds(r))
		require.Equal(t, v1.PodRunning, w.agent.statuses.Get("1").Phase)
		w.set()
		w.sleep(10 * time.Second)
		w.requireNothingLeft()
		require.Empty(t, w.agent.syncer.Explain("1"))
	})
}

func kinds(r server.PodReport) []string {
	var out []string
	for _, c := range r.Containers {
		out = append(out, c.Kind+" "+c.Name+" "+c.State)
	}
	return out
}

// C19: an exit that restarts all containers of a pod does so at once, in the same
// sandbox, and their restarts are counted.
func TestRestartAllContainers(t *testing.T) {
	var runs atomic.Int32
	programs := map[string]fake.Program{
		"trigger": func(ctx context.Context, p *fake.Process) int {
			if runs.Add(1) > 1 {
				return fake.SleepUntilStopped(ctx, p)
			}
			time.Sleep(5 * time.Second)
			return 42
		},
		"i": fake.Exit(0),
	}
	inWorld(t, fake.Config{Programs: fake.ByContainer(programs, fake.SleepUntilStopped)}, func(w *world) {
		pod, never := podOf("1", v1.RestartPolicyAlways, "victim", "trigger"), v1.ContainerRestartPolicyNever
		trigger := &pod.Spec.Containers[1]
		trigger.RestartPolicy = &never
		trigger.RestartPolicyRules = []v1.ContainerRestartRule{{
			Action:    v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
		}}
		init := pod.Spec.Containers[0]
		init.Name = "i"
		pod.Spec.InitContainers = []v1.Container{init}
		w.set(pod)
		w.start()
		w.sleep(4 * time.Second)
		require.Equal(t, map[string][]uint32{"victim": {0}, "trigger": {0}}, w.running())
		sandbox := w.sandboxes()[0].Id
		w.sleep(3 * time.Second)
		require.Equal(t, map[string][]uint32{"victim": {1}, "trigger": {1}}, w.running(), "two seconds after the exit")
		require.Equal(t, sandbox, w.sandboxes()[0].Id)
		s := w.agent.statuses.Get("1")
		require.EqualValues(t, 1, s.InitContainerStatuses[0].RestartCount)
		w.sleep(5 * time.Minute)
		require.Equal(t, map[string][]uint32{"victim": {1}, "trigger": {1}}, w.running())
	})
}

// Users that a pod has of its own are found again by the next agent, and free when
// the pod has gone.
func TestUsersOfPods(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		w.set(pod)
		w.start()
		w.sleep(5 * time.Second)
		first, err := w.agent.users.Of(pod)
		require.NoError(t, err)
		require.EqualValues(t, 65536, first.Length)
		w.stop()
		w.start()
		w.sleep(5 * time.Second)
		require.Equal(t, []types.UID{"1"}, w.agent.users.Pods())
		again, err := w.agent.users.Of(pod)
		require.NoError(t, err)
		require.Equal(t, first, again)
		w.set()
		w.sleep(10 * time.Second)
		w.requireNothingLeft()
		require.Empty(t, w.agent.users.Pods())
	})
}

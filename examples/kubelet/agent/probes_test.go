package agent

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/testkit/testagent"
)

func passing() *v1.Probe { return asking("true", 1) }

// probed runs a test with a pod whose probe results the test sets.
func probed(t *testing.T, programs map[string]fake.Program, test func(w *world, a *testagent.Answers)) {
	a := testagent.NewAnswers()
	inWorld(t, fake.Config{Exec: a.Exec(), Programs: fake.ByContainer(programs, fake.SleepUntilStopped)}, func(w *world) { test(w, a) })
}

// T38: a container whose liveness probe fails is killed once, with the probe's own grace period,
// and restarted. The new instance is probed from the start.
func TestLivenessRestartsAContainer(t *testing.T) {
	probed(t, map[string]fake.Program{"a": ignoreTERM}, func(w *world, a *testagent.Answers) {
		pod := podOf("1", v1.RestartPolicyAlways, "a", "b")
		pod.Spec.Containers[0].LivenessProbe = asking("alive", 3)
		pod.Spec.Containers[0].LivenessProbe.TerminationGracePeriodSeconds = new(int64(20))
		w.set(pod)
		w.startFor(30 * time.Second)
		require.Equal(t, map[string][]uint32{"a": {0}, "b": {0}}, w.Running())
		require.Greater(t, a.Count("a alive"), 10)
		a.Set("a alive", 1)
		w.Sleep(5 * time.Second)
		failed := a.Count("a alive")
		require.Equal(t, "Failure", w.report("pod-1").Probes[0].Result)
		w.Sleep(10 * time.Second)
		require.Equal(t, failed, a.Count("a alive"), "no probe after the container's end")
		require.Equal(t, map[string][]uint32{"a": {0}, "b": {0}}, w.Running(), "it has the grace period of the probe, not of the pod")
		a.Set("a alive", 0)
		w.Sleep(5 * time.Minute)
		require.Equal(t, map[string][]uint32{"a": {1}, "b": {0}}, w.Running())
		c := w.container("1", "a")
		require.EqualValues(t, 1, c.RestartCount)
		require.EqualValues(t, 137, c.LastTerminationState.Terminated.ExitCode, "it ignored the signal")
		require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady))
	})
}

// T17, T36: readiness affects the Ready conditions only. It takes effect at once, even while a
// worker is busy with the pod.
func TestReadinessGatesReady(t *testing.T) {
	var restarting chan struct{} // created inside the bubble
	program := func(ctx context.Context, p *fake.Process) int {
		select {
		case <-restarting:
			return 3
		case <-ctx.Done():
			return 0
		}
	}
	probed(t, map[string]fake.Program{"b": program}, func(w *world, a *testagent.Answers) {
		restarting = make(chan struct{})
		a.Set("a ready", 1)
		pod := podOf("1", v1.RestartPolicyAlways, "a", "b")
		pod.Spec.Containers[0].ReadinessProbe = asking("ready", 2)
		w.set(pod)
		w.startFor(10 * time.Second)
		require.Equal(t, v1.ConditionFalse, w.condition("1", v1.PodReady))
		require.Equal(t, v1.ConditionFalse, w.condition("1", v1.ContainersReady))
		r := w.report("pod-1")
		require.Regexp(t, `ContainersNotReady.*\[a]`, r.NotReady)
		require.Len(t, r.Probes, 1)
		require.Equal(t, []string{"a", "Readiness", "exec", "Failure", "Failure"},
			[]string{r.Probes[0].Container, r.Probes[0].Type, r.Probes[0].Handler, r.Probes[0].Result, r.Probes[0].Last})
		how := proberReport(w.agent.syncer.Probes().Pools()[0])
		require.Equal(t, "exec", how.Handler)
		require.Equal(t, 10, how.Budget)

		a.Set("a ready", 0)
		w.Sleep(1050 * time.Millisecond)
		require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady), "within one period")
		require.Empty(t, w.report("pod-1").NotReady)

		// The worker waits for a runtime that does not respond.
		w.calls.Intercept(func(ctx context.Context, call string, do func() error) error {
			if call == "CreateContainer" {
				<-ctx.Done()
				return ctx.Err()
			}
			return do()
		})
		close(restarting)
		w.Sleep(15 * time.Second) // includes the back-off of b
		require.True(t, w.container("1", "a").Ready)
		a.Set("a ready", 1)
		w.Sleep(2100 * time.Millisecond)
		require.NotEmpty(t, w.report("pod-1").Step, "the worker is still busy")
		require.False(t, w.container("1", "a").Ready)
		require.Equal(t, []uint32{0}, w.Running()["a"], "unready containers run on")
	})
}

// T37, T43: the startup probe of a sidecar delays its other probes and the next containers. Its
// liveness probe restarts the sidecar alone, but not while the pod is being stopped.
func TestProbesOfASidecar(t *testing.T) {
	draining := func(ctx context.Context, p *fake.Process) int {
		<-p.Signals()
		time.Sleep(20 * time.Second)
		return 0
	}
	probed(t, map[string]fake.Program{"a": draining}, func(w *world, a *testagent.Answers) {
		a.Set("s started", 1)
		a.Set("s alive", 1)
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(60))
		pod.Spec.InitContainers = podOf("1", "", "s").Spec.Containers
		s := &pod.Spec.InitContainers[0]
		s.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		s.StartupProbe, s.LivenessProbe, s.ReadinessProbe = asking("started", 30), asking("alive", 3), asking("ready", 1)
		w.set(pod)
		w.startFor(20 * time.Second)
		require.Equal(t, map[string][]uint32{"s": {0}}, w.Running())
		require.Zero(t, a.Count("s alive")+a.Count("s ready"))
		a.Set("s alive", 0)
		a.Set("s started", 0)
		w.Sleep(6 * time.Second)
		require.Equal(t, map[string][]uint32{"s": {0}, "a": {0}}, w.Running())
		require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady))

		a.Set("s alive", 1)
		w.Sleep(5 * time.Second)
		a.Set("s alive", 0)
		w.Sleep(30 * time.Second)
		require.Equal(t, map[string][]uint32{"s": {1}, "a": {0}}, w.Running())
		require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady))

		w.set()
		w.Sleep(2 * time.Second)
		a.Set("s alive", 1)
		before := a.Count("s alive")
		w.Sleep(10 * time.Second)
		require.Equal(t, map[string][]uint32{"s": {1}, "a": {0}}, w.Running(), "sidecar s runs while a drains")
		require.Equal(t, before, a.Count("s alive"))
		w.Sleep(2 * time.Minute)
		w.requireNothingLeft()
		require.Empty(t, w.agent.syncer.Probes().Workers("1"))
	})
}

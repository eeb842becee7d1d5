package agent

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/internal/testagent"
)

// passing is a probe that a container can have.
func passing() *v1.Probe { return asking("true", 1) }

// asking is a probe that is executed each second and counts after so many failures.
func asking(command string, failures int32) *v1.Probe {
	return &v1.Probe{
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{command}}}, PeriodSeconds: 1, FailureThreshold: failures,
	}
}

// condition is the status of one of the pod's conditions.
func (w *world) condition(uid types.UID, t v1.PodConditionType) v1.ConditionStatus {
	if s := w.agent.statuses.Get(uid); s != nil {
		for _, c := range s.Conditions {
			if c.Type == t {
				return c.Status
			}
		}
	}
	return ""
}

func (w *world) container(uid types.UID, name string) v1.ContainerStatus {
	w.t.Helper()
	if s := w.agent.statuses.Get(uid); s != nil {
		for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
			if c.Name == name {
				return c
			}
		}
	}
	w.t.Fatalf("no status of container %s", name)
	return v1.ContainerStatus{}
}

// T38: a container whose liveness probe fails is killed once, with the probe's own
// grace period, and started again; its successor is probed anew.
func TestLivenessRestartsAContainer(t *testing.T) {
	a := testagent.NewAnswers()
	stubborn := func(ctx context.Context, p *fake.Process) int {
		p.Signals()
		<-ctx.Done()
		return 0
	}
	inWorld(t, fake.Config{Exec: a.Exec(), Programs: fake.ByContainer(map[string]fake.Program{"a": stubborn}, fake.SleepUntilStopped)}, func(w *world) {
		pod, grace := podOf("1", v1.RestartPolicyAlways, "a", "b"), int64(20)
		pod.Spec.Containers[0].LivenessProbe = asking("alive", 3)
		pod.Spec.Containers[0].LivenessProbe.TerminationGracePeriodSeconds = &grace
		w.set(pod)
		w.start()
		w.sleep(30 * time.Second)
		require.Equal(t, map[string][]uint32{"a": {0}, "b": {0}}, w.running())
		require.Greater(t, a.Count("a alive"), 10)
		a.Set("a alive", 1)
		w.sleep(5 * time.Second)
		failed := a.Count("a alive")
		require.Equal(t, map[string][]uint32{"a": {0}, "b": {0}}, w.running(), "it is being stopped")
		require.Equal(t, "Failure", w.report("pod-1").Probes[0].Result)
		w.sleep(10 * time.Second)
		require.Equal(t, failed, a.Count("a alive"), "nobody asks it any more")
		require.Equal(t, map[string][]uint32{"a": {0}, "b": {0}}, w.running(), "it has the grace period of the probe, not of the pod")
		a.Set("a alive", 0)
		w.sleep(15 * time.Second)
		require.Equal(t, map[string][]uint32{"a": {1}, "b": {0}}, w.running())
		c := w.container("1", "a")
		require.EqualValues(t, 1, c.RestartCount)
		require.EqualValues(t, 137, c.LastTerminationState.Terminated.ExitCode, "it did not heed the signal")
		w.sleep(5 * time.Minute)
		require.Equal(t, map[string][]uint32{"a": {1}, "b": {0}}, w.running())
		require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady))
	})
}

// T17, T36: readiness decides about Ready, and about nothing else. It counts at once,
// also while a worker is busy with the pod.
func TestReadinessGatesReady(t *testing.T) {
	a := testagent.NewAnswers()
	a.Set("a ready", 1)
	var restarting chan struct{} // belongs to the bubble
	program := func(ctx context.Context, p *fake.Process) int {
		select {
		case <-restarting:
			return 3
		case <-ctx.Done():
			return 0
		}
	}
	inWorld(t, fake.Config{Exec: a.Exec(), Programs: fake.ByContainer(map[string]fake.Program{"b": program}, fake.SleepUntilStopped)}, func(w *world) {
		restarting = make(chan struct{})
		pod := podOf("1", v1.RestartPolicyAlways, "a", "b")
		pod.Spec.Containers[0].ReadinessProbe = asking("ready", 2)
		w.set(pod)
		w.start()
		w.sleep(10 * time.Second)
		require.Equal(t, v1.ConditionFalse, w.condition("1", v1.PodReady))
		require.Equal(t, v1.ConditionFalse, w.condition("1", v1.ContainersReady))
		r := w.report("pod-1")
		require.Contains(t, r.NotReady, "ContainersNotReady")
		require.Contains(t, r.NotReady, "[a]")
		require.Len(t, r.Probes, 1)
		require.Equal(t, []string{"a", "Readiness", "exec", "Failure", "Failure"},
			[]string{r.Probes[0].Container, r.Probes[0].Type, r.Probes[0].Handler, r.Probes[0].Result, r.Probes[0].Last})
		how := proberReport(w.agent.probes.Pools()[0])
		require.Equal(t, "exec", how.Handler)
		require.Equal(t, 10, how.Budget)

		a.Set("a ready", 0)
		w.sleep(1050 * time.Millisecond)
		require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady), "within one period")
		require.Empty(t, w.report("pod-1").NotReady)

		// The worker waits for a runtime that does not answer.
		w.calls.Intercept(func(ctx context.Context, call string, do func() error) error {
			if call == "CreateContainer" {
				<-ctx.Done()
				return ctx.Err()
			}
			return do()
		})
		close(restarting)
		w.sleep(15 * time.Second) // the back-off of b included
		require.NotEmpty(t, w.report("pod-1").Step)
		require.True(t, w.container("1", "a").Ready)
		a.Set("a ready", 1)
		w.sleep(2100 * time.Millisecond)
		require.NotEmpty(t, w.report("pod-1").Step, "the worker is still busy")
		require.False(t, w.container("1", "a").Ready)
		require.Equal(t, []uint32{0}, w.running()["a"], "unready containers run on")
	})
}

// T37, T41: before a container has started, it is neither probed otherwise nor ready;
// afterwards nobody asks whether it has. One that does not start is restarted.
func TestStartupGatesTheOtherProbes(t *testing.T) {
	a := testagent.NewAnswers()
	a.Set("a started", 1)
	a.Set("a alive", 1)
	inWorld(t, fake.Config{Exec: a.Exec()}, func(w *world) {
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		c := &pod.Spec.Containers[0]
		c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = asking("started", 30), asking("alive", 3), asking("ready", 3)
		w.set(pod)
		w.start()
		w.sleep(20 * time.Second)
		require.False(t, *w.container("1", "a").Started)
		require.Zero(t, a.Count("a alive")+a.Count("a ready"))
		w.sleep(20 * time.Second)
		require.Equal(t, map[string][]uint32{"a": {1}}, w.running(), "30 failures are too many")
		a.Set("a alive", 0)
		a.Set("a started", 0)
		w.sleep(3 * time.Second)
		require.True(t, *w.container("1", "a").Started)
		require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady))
		asked := a.Count("a started")
		w.sleep(time.Minute)
		require.Equal(t, asked, a.Count("a started"), "it has started")
		require.Greater(t, a.Count("a alive"), 50)
		require.EqualValues(t, 1, w.container("1", "a").RestartCount)
	})
}

// T18, T43: a sidecar's startup holds back what comes after it, its readiness counts,
// and its liveness restarts it alone, but not once the pod is being stopped.
func TestProbesOfASidecar(t *testing.T) {
	a := testagent.NewAnswers()
	a.Set("s started", 1)
	draining := func(ctx context.Context, p *fake.Process) int {
		<-p.Signals()
		time.Sleep(20 * time.Second)
		return 0
	}
	inWorld(t, fake.Config{Exec: a.Exec(), Programs: fake.ByContainer(map[string]fake.Program{"a": draining}, fake.SleepUntilStopped)}, func(w *world) {
		pod, always, grace := podOf("1", v1.RestartPolicyAlways, "a"), v1.ContainerRestartPolicyAlways, int64(60)
		pod.Spec.TerminationGracePeriodSeconds = &grace
		sidecar := pod.Spec.Containers[0]
		sidecar.Name, sidecar.RestartPolicy = "s", &always
		sidecar.StartupProbe, sidecar.LivenessProbe, sidecar.ReadinessProbe = asking("started", 100), asking("alive", 3), asking("ready", 1)
		pod.Spec.InitContainers = []v1.Container{sidecar}
		w.set(pod)
		w.start()
		w.sleep(20 * time.Second)
		require.Equal(t, map[string][]uint32{"s": {0}}, w.running())
		a.Set("s started", 0)
		w.sleep(3 * time.Second)
		require.Equal(t, map[string][]uint32{"s": {0}, "a": {0}}, w.running())
		w.sleep(3 * time.Second)
		require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady))

		a.Set("s ready", 1)
		w.sleep(2 * time.Second)
		require.Equal(t, v1.ConditionFalse, w.condition("1", v1.ContainersReady))
		a.Set("s ready", 0)

		a.Set("s alive", 1)
		w.sleep(5 * time.Second)
		a.Set("s alive", 0)
		w.sleep(30 * time.Second)
		require.Equal(t, map[string][]uint32{"s": {1}, "a": {0}}, w.running())
		require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady))

		w.set()
		w.sleep(2 * time.Second)
		a.Set("s alive", 1)
		a.Set("s ready", 1)
		before := a.Count("s alive")
		w.sleep(10 * time.Second)
		require.Equal(t, map[string][]uint32{"s": {1}, "a": {0}}, w.running(), "a drains, and s is there for it")
		require.Equal(t, before, a.Count("s alive"))
		require.Equal(t, v1.ConditionFalse, w.condition("1", v1.PodReady), "readiness is still told")
		w.sleep(2 * time.Minute)
		w.requireNothingLeft()
		require.Empty(t, w.agent.probes.Explain("1"))
	})
}

// A container that fails its liveness probe for the last time ends its pod where the
// policy says so.
func TestLivenessEndsAPod(t *testing.T) {
	a := testagent.NewAnswers()
	inWorld(t, fake.Config{Exec: a.Exec()}, func(w *world) {
		pod := podOf("1", v1.RestartPolicyNever, "a")
		pod.Spec.Containers[0].LivenessProbe, pod.Spec.Containers[0].ReadinessProbe = asking("alive", 1), asking("ready", 1)
		w.set(pod)
		w.start()
		w.sleep(10 * time.Second)
		a.Set("a alive", 1)
		w.sleep(10 * time.Second)
		require.Empty(t, w.running())
		require.Equal(t, v1.PodFailed, w.agent.statuses.Get("1").Phase)
		require.Equal(t, v1.ConditionFalse, w.condition("1", v1.PodReady))
		require.Empty(t, w.agent.probes.Explain("1"), "nothing of it is probed any more")
	})
}

// A container is asked as soon as it runs, whatever the period: its first start, and
// each one after.
func TestAContainerIsAskedAsSoonAsItRuns(t *testing.T) {
	a := testagent.NewAnswers()
	program := func(ctx context.Context, _ *fake.Process) int {
		select {
		case <-time.After(5 * time.Minute):
			return 3
		case <-ctx.Done():
			return 0
		}
	}
	inWorld(t, fake.Config{Exec: a.Exec(), Programs: fake.Always(program)}, func(w *world) {
		w.start()
		w.sleep(2 * time.Hour) // no spreading of first probes any more
		pod := podOf("1", v1.RestartPolicyAlways, "a")
		c := &pod.Spec.Containers[0]
		c.StartupProbe, c.ReadinessProbe = asking("started", 3), asking("ready", 3)
		c.StartupProbe.PeriodSeconds, c.ReadinessProbe.PeriodSeconds = 3600, 3600
		w.set(pod)
		w.sleep(500 * time.Millisecond)
		require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady))
		w.sleep(5*time.Minute + 12*time.Second)
		require.Equal(t, map[string][]uint32{"a": {1}}, w.running())
		require.Equal(t, v1.ConditionTrue, w.condition("1", v1.PodReady))
		require.Equal(t, 2, a.Count("a started"))
	})
}

// A probe that nobody could carry out refuses its pod, by its field, and no other.
func TestBadProbesRefuseTheirPod(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		bad, good := podOf("1", v1.RestartPolicyAlways, "a"), podOf("2", v1.RestartPolicyAlways, "a")
		bad.Spec.Containers[0].LivenessProbe = asking("alive", -1)
		bad.Spec.Containers[0].LivenessProbe.InitialDelaySeconds = -5
		w.set(bad, good)
		w.start()
		w.sleep(5 * time.Second)
		s := w.agent.statuses.Get("1")
		require.Equal(t, "UnsupportedPodSpec", s.Reason)
		require.Contains(t, s.Message, "spec.containers[0].livenessProbe.initialDelaySeconds: -5")
		require.Contains(t, s.Message, "spec.containers[0].livenessProbe.failureThreshold: -1")
		require.Equal(t, map[string][]uint32{"a": {0}}, w.running())
		require.Equal(t, v1.PodRunning, w.agent.statuses.Get("2").Phase)
	})
}

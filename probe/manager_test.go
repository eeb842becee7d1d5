package probe_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/probetest"
)

const s = time.Second

func TestNew(t *testing.T) {
	for want, change := range map[string]func(*probe.Config){
		"Config.Status is required":                func(c *probe.Config) { c.Status = nil },
		"Config.Probers is required":               func(c *probe.Config) { c.Probers = nil },
		`Config.Probers: "ftp" is not a handler`:   func(c *probe.Config) { c.Probers["ftp"] = &probetest.Prober{} },
		"Config.Probers[exec] is required":         func(c *probe.Config) { c.Probers[probe.Exec] = nil },
		"Config.Probers[grpc] is required":         func(c *probe.Config) { c.Probers[probe.GRPC] = (*probetest.Prober)(nil) },
		"Config.ShutdownTimeout is negative: -1ns": func(c *probe.Config) { c.ShutdownTimeout = -1 },
	} {
		cfg := execOnly()
		change(&cfg)
		_, err := probe.New(cfg)
		require.EqualError(t, err, "probe: "+want)
	}
	m, err := probe.New(execOnly())
	require.NoError(t, err)
	require.Equal(t, []probe.Pool{{Handler: probe.Exec, Budget: 10}}, m.Pools())
}

// Readiness and startup of a new instance are probed at once, then each period. Results are
// reported and stored.
func TestReadiness(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		pod := podOf("u", container("web", probes{probe.Readiness: every(10)}))
		r.prober.Script("web", probe.Readiness, succeed(fails)...)
		r.set(pod)
		r.sleep(30 * s)
		require.Empty(t, r.prober.Calls(), "the container does not exist yet")
		require.Equal(t, "the container has not been created", r.worker(pod, "web", probe.Readiness).Why)
		r.set(pod, running("web", "fake://1"))
		require.Equal(t, map[string]probe.Verdict{"web Readiness": probe.Failure}, r.results(pod))
		r.sleep(25 * s)
		require.Equal(t, []time.Duration{30 * s, 40 * s, 50 * s}, r.when("web", probe.Readiness))
		require.Equal(t, map[string]probe.Verdict{"web Readiness": probe.Success}, r.results(pod))
		require.Equal(t, []probe.Change{
			{UID: "u", Stored: probe.Stored{Container: "web", ContainerID: "fake://1", Type: probe.Readiness, Result: probe.Failure}},
			{UID: "u", Stored: probe.Stored{Container: "web", ContainerID: "fake://1", Type: probe.Readiness, Result: probe.Success}},
		}, r.changeList())
	})
}

// T36, T39: thresholds, with their defaults, and the initial delay apply to each instance.
func TestThresholdsOfSpec(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		p := &v1.Probe{ProbeHandler: handler(probe.HTTPGet), SuccessThreshold: 2, InitialDelaySeconds: 5}
		pod := podOf("u", container("web", probes{probe.Readiness: p}))
		good := probetest.Step{Verdict: probe.Success}
		r.prober.Script("web", probe.Readiness, fails, good, fails, good, good, fails, fails, good, fails, fails, fails)
		r.set(pod, running("web", "fake://1"))
		r.sleep(2 * time.Minute)
		require.Equal(t, []probe.Verdict{probe.Failure, probe.Success, probe.Failure}, r.changesOf(probe.Readiness))
		require.Equal(t, []time.Duration{10 * s, s}, []time.Duration{r.worker(pod, "web", probe.Readiness).Period, r.worker(pod, "web", probe.Readiness).Timeout})
		calls := r.when("web", probe.Readiness)
		require.Equal(t, []time.Duration{5 * s, 15 * s, 25 * s}, calls[:3])
		r.set(pod, running("web", "fake://2"))
		r.sleep(9 * s)
		require.Equal(t, append(calls, 125*s), r.when("web", probe.Readiness))
	})
}

// T37: before the startup probe succeeds, no other probe runs. Afterwards it never runs again for
// that instance.
func TestStartupFirst(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		slowStart := every(5)
		slowStart.FailureThreshold = 30
		pod := podOf("u", container("web", probes{probe.Liveness: every(5), probe.Readiness: every(5), probe.Startup: slowStart}))
		r.prober.Script("web", probe.Startup, succeed(fails, fails)...)
		r.set(pod, starting("web", "fake://1"))
		r.sleep(7 * s)
		require.Empty(t, r.when("web", probe.Liveness))
		require.Empty(t, r.when("web", probe.Readiness))
		r.sleep(3 * s)
		require.Equal(t, []probe.Verdict{probe.Success}, r.changesOf(probe.Startup))
		r.sleep(20 * s)
		require.Equal(t, []time.Duration{0, 5 * s, 10 * s}, r.when("web", probe.Startup), "no further execution, though the status is old")
		r.set(pod, runningSince("web", "fake://1", r.begin)) // as the pod's syncer does
		require.Equal(t, []time.Duration{30 * s}, r.when("web", probe.Readiness), "at once")
		r.sleep(20 * s)
		require.Len(t, r.when("web", probe.Startup), 3)
		require.NotEmpty(t, r.when("web", probe.Liveness))
		require.Equal(t, "the container has started", r.worker(pod, "web", probe.Startup).Why)

		// T54: the next instance has not started.
		r.prober.Script("web", probe.Startup, fails)
		before := len(r.when("web", probe.Liveness))
		r.set(pod, starting("web", "fake://2"))
		require.NotContains(t, r.results(pod), "web Startup")
		r.sleep(20 * s)
		require.Len(t, r.when("web", probe.Liveness), before)
		require.Equal(t, []time.Duration{50 * s, 55 * s, 60 * s, 65 * s, 70 * s}, r.when("web", probe.Startup)[3:])
	})
}

// T38: three failures are one change; then the probe of the instance ends. The next instance
// begins with a Success.
func TestLivenessHold(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		three := every(10)
		three.FailureThreshold = 3
		pod := podOf("u", container("web", probes{probe.Liveness: three}))
		r.prober.Script("web", probe.Liveness, fails)
		r.set(pod, running("web", "fake://1"))
		r.sleep(5 * time.Minute)
		require.Equal(t, []probe.Verdict{probe.Success, probe.Failure}, r.changesOf(probe.Liveness))
		require.Len(t, r.prober.Calls(), 3)
		w := r.worker(pod, "web", probe.Liveness)
		require.Equal(t, probe.StateWaiting, w.State)
		require.Equal(t, "the container failed and will be restarted", w.Why)
		require.Equal(t, "no", w.Output)
		r.prober.Script("web", probe.Liveness)
		r.set(pod, running("web", "fake://2"))
		require.Equal(t, probe.Results{{Container: "web", ContainerID: "fake://2", Type: probe.Liveness, Result: probe.Success}}, r.Results("u"))
		r.sleep(20 * s)
		require.Len(t, r.prober.Calls(), 5)
		require.Equal(t, []probe.Verdict{probe.Success, probe.Failure, probe.Success}, r.changesOf(probe.Liveness))
	})
}

// T43: after the begin of termination only readiness is probed, also for sidecars, and the
// outcome of a cancelled execution does not count.
func TestTermination(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		sidecar := container("side", probes{probe.Liveness: every(5), probe.Readiness: every(5)})
		sidecar.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		web := container("web", probes{probe.Liveness: every(5), probe.Readiness: every(5), probe.Startup: every(5)})
		pod := podOf("u", web)
		pod.Spec.InitContainers = []v1.Container{sidecar}
		r.set(pod, running("side", "fake://s"), running("web", "fake://w"))
		r.sleep(12 * s)
		require.Len(t, r.results(pod), 5)
		slow := probetest.Step{Latency: 900 * time.Millisecond, Verdict: probe.Failure}
		r.prober.Script("web", probe.Liveness, slow)
		r.prober.Script("side", probe.Liveness, slow)
		r.prober.Script("web", probe.Readiness, fails)
		r.sleep(3100 * time.Millisecond)
		require.Equal(t, probe.StateExecuting, r.worker(pod, "side", probe.Liveness).State)
		r.StopLivenessAndStartup("u")
		require.Equal(t, map[string]probe.Verdict{"web Readiness": probe.Failure, "side Readiness": probe.Success}, r.results(pod))
		synctest.Wait()
		cut := r.prober.CallsOf("web", probe.Liveness)
		require.Equal(t, time.Now(), cut[len(cut)-1].Ended, "a running execution is cancelled")
		calls := len(cut)
		r.set(pod, running("side", "fake://s"), running("web", "fake://w"))
		r.sleep(20 * s)
		require.Len(t, r.prober.CallsOf("web", probe.Liveness), calls, "AddPod does not restart them")
		require.Equal(t, map[string]probe.Verdict{"web Readiness": probe.Failure, "side Readiness": probe.Success}, r.results(pod))
		for _, c := range r.changeList() {
			require.False(t, c.Type == probe.Liveness && c.Result == probe.Failure, "%+v", c)
		}
		require.Len(t, r.Workers("u"), 2)
		r.RemovePod("u")
		require.Empty(t, r.Results("u"))
		require.Empty(t, r.Workers("u"))
	})
}

// A pod that is added with a deletion timestamp has only readiness probes.
func TestAddDeletedPod(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		pod := podOf("u", container("web", probes{probe.Liveness: every(5), probe.Readiness: every(5)}))
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		r.set(pod, running("web", "fake://1"))
		r.sleep(11 * s)
		require.Empty(t, r.when("web", probe.Liveness))
		require.NotEmpty(t, r.when("web", probe.Readiness))
	})
}

// T44: the worker of a container that has ended for good ends, and AddPod on later syncs reports
// no changes.
func TestContainerEnds(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		pod := podOf("u", container("job", probes{probe.Readiness: every(10)}), container("web", probes{probe.Readiness: every(10)}))
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		for _, name := range []string{"job", "web"} { // starts with Failure, so that the first result is no change
			r.prober.Script(name, probe.Readiness, probetest.Step{Verdict: probe.Success, Latency: time.Millisecond})
		}
		r.set(pod, running("job", "fake://j"), running("web", "fake://w"))
		r.sleep(11 * s)
		for range 3 {
			r.set(pod, exited("job", "fake://j", 0), runningSince("web", "fake://w", r.begin))
			r.sleep(11 * s)
		}
		w := r.worker(pod, "job", probe.Readiness)
		require.Equal(t, probe.StateEnded, w.State)
		require.Equal(t, "the container has ended and will not be restarted", w.Why)
		require.Equal(t, map[string]probe.Verdict{"web Readiness": probe.Success}, r.results(pod))
		require.Len(t, r.changesOf(probe.Readiness), 4, "two containers, unready and ready; a dropped result is not reported")
		require.Len(t, r.removedList(), 1, "T56")
		// The runtime failed to list the container once.
		r.set(pod, runningSince("job", "fake://j", r.begin), runningSince("web", "fake://w", r.begin))
		r.sleep(11 * s)
		require.Equal(t, probe.StateScheduled, r.worker(pod, "job", probe.Readiness).State)
	})
}

// T45: AddPod creates missing workers beside existing ones. The error lists invalid specs and
// missing Probers, and all other probes work.
func TestAddPod(t *testing.T) {
	only := func(c *probe.Config) { delete(c.Probers, probe.GRPC) }
	inBubble(t, only, func(r *rig) {
		bad := every(-1)
		grpc := &v1.Probe{ProbeHandler: handler(probe.GRPC)}
		pod := podOf("u", container("a", probes{probe.Liveness: bad, probe.Readiness: every(10), probe.Startup: grpc}))
		r.store(pod, running("a", "fake://a"), running("b", "fake://b"))
		const message = "probe: pod ns/pod-u (u): spec.containers[0].livenessProbe.periodSeconds: -1: must not be negative\n" +
			"spec.containers[0].startupProbe.grpc: Config.Probers has no Prober for this handler"
		require.EqualError(t, r.AddPod(pod), message)
		more := pod.DeepCopy()
		more.Spec.Containers = append(more.Spec.Containers, container("b", probes{probe.Readiness: every(10)}))
		more.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 1
		for range 2 {
			require.EqualError(t, r.AddPod(more), message)
		}
		r.sleep(10 * s)
		require.Equal(t, []time.Duration{0, 10 * s}, r.when("a", probe.Readiness), "parameters never change")
		require.Equal(t, []time.Duration{0, 10 * s}, r.when("b", probe.Readiness))
		require.Len(t, r.Workers("u"), 2)

		require.EqualError(t, r.AddPod(nil), "probe: AddPod: the pod is nil")
		require.EqualError(t, r.AddPod(podOf("")), "probe: AddPod: pod ns/pod-: metadata.uid: is empty")
		mirror := podOf("m")
		mirror.Annotations = map[string]string{"kubernetes.io/config.mirror": ""}
		require.ErrorContains(t, r.AddPod(mirror), "is a mirror pod")
	})
}

// A new instance that starts during a probe of its predecessor is probed right after it.
func TestNewInstanceMeanwhile(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		pod := podOf("u", container("web", probes{probe.Readiness: every(10)}))
		r.prober.Script("web", probe.Readiness, succeed(probetest.Step{Verdict: probe.Success, Latency: 900 * time.Millisecond})...)
		r.set(pod, running("web", "fake://1"))
		r.sleep(300 * time.Millisecond)
		r.set(pod, running("web", "fake://2"))
		r.sleep(s)
		require.Equal(t, []time.Duration{0, 900 * time.Millisecond}, r.when("web", probe.Readiness))
		require.Equal(t, probe.Results{{Container: "web", ContainerID: "fake://2", Type: probe.Readiness, Result: probe.Success}}, r.Results("u"))
	})
}

// T55: Trigger takes effect at once, and the next tick is a period later.
func TestTrigger(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		pod := podOf("u", container("web", probes{probe.Readiness: every(10), probe.Liveness: every(10)}))
		r.Trigger("u", "web") // unknown pod: no effect
		r.set(pod, running("web", "fake://1"))
		r.sleep(14 * s)
		r.Trigger("u", "web")
		r.Trigger("u", "other")
		r.sleep(25 * s)
		require.Equal(t, []time.Duration{0, 10 * s, 14 * s, 24 * s, 34 * s}, r.when("web", probe.Readiness))
		r.prober.Script("web", probe.Readiness, probetest.Step{Verdict: probe.Success, Latency: 500 * time.Millisecond})
		r.sleep(5100 * time.Millisecond)
		require.Equal(t, probe.StateExecuting, r.worker(pod, "web", probe.Readiness).State)
		r.Trigger("u", "web")
		r.sleep(5 * s)
		require.Len(t, r.when("web", probe.Readiness), 6, "one in progress is enough")
		// Trigger does not start a probe that must wait.
		r.store(pod, starting("web", "fake://1"))
		r.Trigger("u", "web")
		r.sleep(20 * s)
		require.Len(t, r.when("web", probe.Readiness), 6)
	})
}

func TestPrune(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		for _, uid := range []types.UID{"a", "b"} {
			r.set(podOf(uid, container("web", probes{probe.Readiness: every(10)})), running("web", "fake://"+string(uid)))
		}
		r.Restore("c", []probe.Stored{{Container: "web", ContainerID: "fake://c", Type: probe.Readiness, Result: probe.Success}})
		r.Prune(func(uid types.UID) bool { return uid == "a" })
		require.Len(t, r.Workers("a"), 1)
		require.Empty(t, r.Workers("b"))
		require.NoError(t, r.AddPod(podOf("c", container("web", probes{probe.Readiness: every(10)}))))
		require.Empty(t, r.Results("c"), "restored results are forgotten, too")
	})
}

func TestRunTwice(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		synctest.Wait()
		require.ErrorIs(t, r.Run(t.Context()), probe.ErrAlreadyRun)
	})
}

// Before Run, Workers reports that a probe waits for Run.
func TestBeforeRun(t *testing.T) {
	m, err := probe.New(execOnly())
	require.NoError(t, err)
	require.NoError(t, m.AddPod(podOf("u", container("web", probes{probe.Readiness: every(10)}))))
	w := m.Workers("u")[0]
	require.Equal(t, probe.StateWaiting, w.State)
	e := m.Explain("u")[0]
	require.Equal(t, []string{"readiness probe of web", "it waits for Run", "it waits for Run"}, []string{e.Part, e.Why, w.Why})
}

package probe_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/probetest"
)

func agentStartsNow(c *probe.Config) { probe.SetAgentStart(c, time.Now()) }

// T42: after a restart of the agent the first probes are spread over a period, in the same way
// each time, despite syncs and triggers. A container that starts after the agent is probed at
// once.
func TestSpread(t *testing.T) {
	first := map[types.UID][]time.Duration{}
	for range 2 {
		inBubble(t, agentStartsNow, func(r *rig) {
			for i := range 60 {
				pod := podOf(types.UID(fmt.Sprintf("pod-%d", i)), container("web", probes{probe.Readiness: every(10)}))
				r.set(pod, runningSince("web", "fake://"+string(pod.UID), r.begin.Add(-time.Minute)))
				r.Trigger(pod.UID, "web")
			}
			r.set(podOf("new", container("new", probes{probe.Readiness: every(10)})), running("new", "fake://new"))
			r.sleep(20 * time.Millisecond) // the longest pause between two turns
			require.Len(t, r.when("new", probe.Readiness), 1)
			r.sleep(10*s - 20*time.Millisecond)
			perSecond := make([]int, 10)
			calls := r.prober.CallsOf("web", probe.Readiness)
			require.Len(t, calls, 60)
			for _, c := range calls {
				at := c.Began.Sub(r.begin)
				first[c.UID] = append(first[c.UID], at)
				perSecond[at/s]++
			}
			require.LessOrEqual(t, slices.Max(perSecond), 15, "%v", perSecond)
			require.GreaterOrEqual(t, slices.Min(perSecond), 1, "%v", perSecond)
		})
	}
	for uid, times := range first {
		require.Len(t, times, 2)
		require.InDelta(t, times[0], times[1], float64(20*time.Millisecond), uid)
	}
}

// After its first period an agent does not spread probes.
func TestNoSpreadLater(t *testing.T) {
	inBubble(t, agentStartsNow, func(r *rig) {
		r.sleep(10 * s)
		for i := range 20 {
			pod := podOf(types.UID(fmt.Sprintf("pod-%d", i)), container("web", probes{probe.Liveness: every(10)}))
			r.set(pod, runningSince("web", "fake://"+string(pod.UID), r.begin.Add(-time.Minute)))
		}
		require.Len(t, r.prober.Calls(), 20)
	})
}

// The first tick ends the spread of a probe, even if the probe could not be executed then.
func TestFirstTickEndsSpread(t *testing.T) {
	inBubble(t, agentStartsNow, func(r *rig) {
		r.set(podOf("v", container("probed", probes{probe.Readiness: every(60)})), runningSince("probed", "fake://2", r.begin.Add(-time.Minute)))
		r.sleep(60 * s)
		require.Len(t, r.when("probed", probe.Readiness), 1)
		r.Trigger("v", "probed")
		synctest.Wait()
		require.Len(t, r.when("probed", probe.Readiness), 2, "a trigger has an effect at once")
	})
	inBubble(t, agentStartsNow, func(r *rig) {
		pod := podOf("u", container("web", probes{probe.Readiness: every(10)}))
		old := runningSince("web", "fake://1", r.begin.Add(-time.Minute))
		starting := old
		starting.Started = new(false)
		r.set(pod, starting)
		r.sleep(12 * s)
		r.set(pod, old)
		require.Equal(t, []time.Duration{12 * s}, r.when("web", probe.Readiness))
	})
}

// T42: the first probe of a container that the runtime failed to list during the agent's start
// keeps its time.
func TestSpreadKeepsTimeOfUnlistedContainer(t *testing.T) {
	var first [2][]time.Duration
	for i, lost := range []bool{false, true} {
		inBubble(t, agentStartsNow, func(r *rig) {
			pod := podOf("u", container("web", probes{probe.Readiness: every(60)}))
			pod.Spec.RestartPolicy = v1.RestartPolicyNever
			if lost {
				r.set(pod, exited("web", "fake://1", 0))
				require.Equal(t, probe.StateEnded, r.worker(pod, "web", probe.Readiness).State)
			}
			r.set(pod, runningSince("web", "fake://1", r.begin.Add(-time.Minute)))
			r.sleep(60 * s)
			first[i] = r.when("web", probe.Readiness)
		})
	}
	require.Len(t, first[0], 1)
	require.Equal(t, first[0], first[1])
}

// T40, T41: without Restore, a container that ran before the agent has no result until its first
// probe, so its status does not change. A startup probe that has passed is not repeated and
// reports Success, because containers after a sidecar wait for it.
func TestAgentRestart(t *testing.T) {
	inBubble(t, agentStartsNow, func(r *rig) {
		three := every(2)
		three.FailureThreshold = 3
		pod := podOf("u", container("web", probes{probe.Liveness: every(2), probe.Readiness: three, probe.Startup: every(2)}))
		r.prober.Script("web", probe.Readiness, fails)
		r.set(pod, runningSince("web", "fake://1", r.begin.Add(-11*s)))
		require.Equal(t, map[string]probe.Verdict{"web Startup": probe.Success}, r.results(pod))
		r.sleep(3 * s)
		require.Empty(t, r.when("web", probe.Startup))
		require.Equal(t, map[string]probe.Verdict{"web Liveness": probe.Success, "web Startup": probe.Success}, r.results(pod), "one failure of three has no effect")
		r.sleep(4 * s)
		require.Equal(t, probe.Failure, r.results(pod)["web Readiness"])

		// A container that started just before the agent is new.
		late := podOf("l", container("late", probes{probe.Readiness: every(2)}))
		r.set(late, runningSince("late", "fake://l", r.begin.Add(-9*s)))
		require.Contains(t, r.changesOf(probe.Readiness), probe.Failure)
	})
}

// Results of an earlier agent apply to the same instance and are no change.
func TestRestore(t *testing.T) {
	inBubble(t, agentStartsNow, func(r *rig) {
		three := every(10)
		three.FailureThreshold = 3
		p := probes{probe.Liveness: three, probe.Readiness: three, probe.Startup: three}
		pod := podOf("u", container("ready", p), container("bad", p), container("other", p), container("odd", p))
		var kept []probe.Stored
		remember := func(c, id string, results map[probe.Type]probe.Verdict) {
			for typ, result := range results {
				kept = append(kept, probe.Stored{Container: c, ContainerID: id, Type: typ, Result: result})
			}
		}
		remember("ready", "fake://1", map[probe.Type]probe.Verdict{probe.Readiness: probe.Success, probe.Liveness: probe.Success, probe.Startup: probe.Success})
		remember("bad", "fake://2", map[probe.Type]probe.Verdict{probe.Readiness: probe.Failure, probe.Liveness: probe.Failure})
		remember("other", "fake://3", map[probe.Type]probe.Verdict{probe.Readiness: probe.Success})
		remember("unheard", "fake://5", map[probe.Type]probe.Verdict{probe.Readiness: probe.Success})
		usable := len(kept)
		remember("odd", "", map[probe.Type]probe.Verdict{probe.Readiness: probe.Success})
		remember("odd", "fake://4", map[probe.Type]probe.Verdict{probe.Liveness: probe.Unknown, probe.Readiness: probe.Warning})
		r.prober.Script("ready", probe.Readiness, fails)
		r.Restore("u", kept)
		require.Len(t, r.Results("u"), usable, "an agent that ends before it adds the pod keeps them")
		old := r.begin.Add(-time.Minute)
		r.set(
			pod,
			runningSince("ready", "fake://1", old), runningSince("bad", "fake://2", old),
			running("other", "fake://33"), runningSince("odd", "fake://4", old),
		)
		for _, dropped := range []string{"unheard Readiness", "odd Readiness", "odd Liveness"} {
			require.NotContains(t, r.results(pod), dropped)
		}
		r.sleep(10 * s)
		for _, c := range pod.Spec.Containers {
			for _, typ := range []probe.Type{probe.Liveness, probe.Readiness, probe.Startup} {
				want := probe.Success
				if c.Name == "bad" && typ == probe.Liveness {
					want = probe.Failure
				}
				require.Equal(t, want, r.results(pod)[c.Name+" "+typ.String()], "%s %s", c.Name, typ)
			}
		}
		require.Empty(t, r.when("bad", probe.Liveness), "its restart was already decided")
		require.Empty(t, r.when("ready", probe.Startup))
		require.Len(t, r.when("ready", probe.Liveness), 1, "a successful container is probed further")
		require.Len(t, r.when("bad", probe.Readiness), 1, "an unready container is probed further")
		require.Len(t, r.when("ready", probe.Readiness), 1, "one failure of three")
		for _, c := range r.changeList() {
			require.NotContains(t, []string{"ready Readiness", "bad Liveness"}, c.Container+" "+c.Type.String(), "it did not change")
		}
		r.sleep(20 * s)
		require.Equal(t, probe.Failure, r.results(pod)["ready Readiness"], "the third")

		// Restore has no effect on probes with a worker.
		r.Restore("u", kept)
		require.NoError(t, r.AddPod(pod))
		require.Equal(t, probe.Failure, r.results(pod)["ready Readiness"])
	})
}

// Neither restored results nor a late AddPod can restart a pod that is stopped before it is added.
func TestStopBeforeAdd(t *testing.T) {
	for _, restoredLater := range []bool{false, true} {
		inBubble(t, nil, func(r *rig) {
			kept := probe.Stored{Container: "web", ContainerID: "fake://1", Type: probe.Readiness, Result: probe.Success}
			stored := []probe.Stored{kept, {Container: "web", ContainerID: "fake://1", Type: probe.Liveness, Result: probe.Failure}}
			if !restoredLater {
				r.Restore("u", stored)
			}
			r.StopLivenessAndStartup("u")
			if restoredLater {
				r.Restore("u", stored)
			}
			require.Equal(t, probe.Results{kept}, r.Results("u"))
			r.set(podOf("u", container("web", probes{probe.Liveness: every(5), probe.Readiness: every(5)})), running("web", "fake://1"))
			r.sleep(11 * s)
			require.Empty(t, r.when("web", probe.Liveness))
			require.NotEmpty(t, r.when("web", probe.Readiness))
			r.RemovePod("u")
			require.Empty(t, r.Results("u"))
		})
	}
}

// At the end of Run, executions are cancelled without an outcome.
func TestStopKeepsResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.start()
		pod := podOf("u", container("web", probes{probe.Liveness: every(10), probe.Readiness: every(10)}))
		r.set(pod, running("web", "fake://1"))
		r.sleep(9 * s)
		// A cancelled execution finds a failure.
		r.prober.Script("web", probe.Liveness, probetest.Step{Latency: 900 * time.Millisecond})
		r.prober.Script("web", probe.Readiness, probetest.Step{Latency: 900 * time.Millisecond})
		r.sleep(1500 * time.Millisecond)
		require.Equal(t, probe.StateExecuting, r.worker(pod, "web", probe.Liveness).State)
		events, probed := len(r.eventList()), len(r.probedList())
		stopped := time.Now()
		r.stop()
		require.NoError(t, <-r.done)
		require.Equal(t, stopped, time.Now(), "no call waits for a timeout")
		require.Equal(t, map[string]probe.Verdict{"web Liveness": probe.Success, "web Readiness": probe.Success}, r.results(pod))
		require.Len(t, r.eventList(), events)
		require.Len(t, r.probedList(), probed)
		// Calls after the end of Run are harmless.
		require.NoError(t, r.AddPod(pod))
		r.Trigger("u", "web")
		r.RemovePod("u")
	})
}

// The error of Run lists a Prober and a callback that ignore their context.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		r := newRig(t, func(c *probe.Config) {
			c.ShutdownTimeout = 3 * s
			c.OnChange = func(probe.Change) { <-free }
		})
		r.start()
		pod := podOf("u", container("web", probes{probe.Readiness: every(10)}))
		r.prober.Script("web", probe.Readiness, probetest.Step{Hang: true})
		r.set(pod, running("web", "fake://1"))
		r.sleep(7 * s)
		r.stop()
		err := <-r.done
		require.ErrorIs(t, err, probe.ErrShutdownTimeout)
		require.EqualError(t, err, "probe: still running after the shutdown timeout (3s): the readiness probe (exec) of container web of pod ns/pod-u (u) for 10s, Config.OnChange")
		close(free)
		r.prober.Release()
		synctest.Wait()
	})
}

// T53: while OnChange blocks, probes continue, and the next call has the newest result.
func TestChangedBlocks(t *testing.T) {
	free := make(chan struct{})
	var told []probe.Change
	inBubble(t, func(c *probe.Config) {
		c.OnChange = func(change probe.Change) {
			<-free
			told = append(told, change)
		}
	}, func(r *rig) {
		free = make(chan struct{})
		const pods = 100
		for i := range pods {
			pod := podOf(types.UID(fmt.Sprintf("pod-%d", i)), container("web", probes{probe.Readiness: every(1)}))
			r.set(pod, running("web", "fake://"+string(pod.UID)))
		}
		for i := range 10 {
			step := fails
			if i%2 == 0 {
				step = probetest.Step{Verdict: probe.Success}
			}
			r.prober.Script("web", probe.Readiness, step)
			r.sleep(s)
		}
		require.Len(t, r.prober.Calls(), 11*pods, "no caller waited")
		r.RemovePod("pod-7") // its change is dropped
		close(free)
		synctest.Wait()
		require.LessOrEqual(t, len(told), pods+1)
		last := map[types.UID]probe.Verdict{}
		for _, c := range told {
			last[c.UID] = c.Result
		}
		require.Len(t, last, pods-1)
		require.NotContains(t, last, types.UID("pod-7"))
		for uid, v := range last {
			require.Equal(t, probe.Failure, v, uid)
		}
	})
}

// If a pod is added again before an earlier execution has returned, its probe waits: one probe
// never runs concurrently with itself.
func TestNeverTwice(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		pod := podOf("u", container("web", probes{probe.Readiness: every(10)}))
		r.prober.Script("web", probe.Readiness, probetest.Step{Hang: true}, probetest.Step{Verdict: probe.Success})
		r.set(pod, running("web", "fake://1"))
		r.sleep(s)
		r.RemovePod("u")
		r.set(pod, running("web", "fake://1"))
		r.sleep(25 * s)
		require.Len(t, r.prober.Calls(), 1)
		require.Equal(t, "an execution for the removed pod has not returned", r.worker(pod, "web", probe.Readiness).Why)
		require.Equal(t, probe.Pool{Handler: probe.Exec, Budget: 10, Running: 1, Stuck: 1}, r.Pools()[0])
		r.prober.Release()
		r.sleep(10 * s)
		require.Equal(t, probe.Success, r.results(pod)["web Readiness"])
		require.Equal(t, 1, r.prober.Most())
		require.Equal(t, probe.Pool{Handler: probe.Exec, Budget: 10}, r.Pools()[0])
	})
}

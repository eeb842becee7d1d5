package probe_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/probetest"
)

func (r *rig) addMany(name string, n int, p *v1.Probe) []*v1.Pod {
	var pods []*v1.Pod
	for i := range n {
		pod := podOf(types.UID(fmt.Sprintf("%s-%d", name, i)), container(name, probes{probe.Readiness: p}))
		r.set(pod, running(name, "fake://"+string(pod.UID)))
		pods = append(pods, pod)
	}
	return pods
}

// Slow commands use up only their own budget, and Workers and Pools report the waiting probes.
func TestBudgetPerHandler(t *testing.T) {
	four := func(c *probe.Config) { probe.SetBudgets(c, map[probe.Handler]int{probe.Exec: 4, probe.HTTPGet: 2}) }
	inBubble(t, four, func(r *rig) {
		r.prober.Script("slow", probe.Readiness, probetest.Step{Verdict: probe.Success, Latency: 400 * time.Millisecond})
		pods := r.addMany("slow", 20, every(10))
		http := every(1)
		http.ProbeHandler = handler(probe.HTTPGet)
		r.addMany("web", 10, http)
		require.Equal(t, []probe.Pool{
			{Handler: probe.Exec, Budget: 4, Running: 4, Queued: 16},
			{Handler: probe.GRPC, Budget: 10}, {Handler: probe.HTTPGet, Budget: 2}, {Handler: probe.TCPSocket, Budget: 10},
		}, r.Pools())
		r.sleep(500 * time.Millisecond)
		require.Equal(t, probe.Pool{Handler: probe.Exec, Budget: 4, Running: 4, Queued: 12, Late: 500 * time.Millisecond}, r.Pools()[0])
		w := r.worker(pods[19], "slow", probe.Readiness)
		require.Equal(t, probe.StateQueued, w.State)
		require.Equal(t, r.begin, w.Since)
		r.sleep(9 * s)
		require.Len(t, r.when("slow", probe.Readiness), 20)
		require.Equal(t, 1600*time.Millisecond, r.worker(pods[19], "slow", probe.Readiness).LastLate)
		require.Len(t, r.when("web", probe.Readiness), 100)
		for _, p := range r.probedList() {
			if p.Handler == probe.HTTPGet {
				require.LessOrEqual(t, p.Late, 20*time.Millisecond)
			}
		}
	})
}

// Containers that do not respond get at most three quarters of a budget, so they do not delay
// others.
func TestSlowProbesAreBounded(t *testing.T) {
	eight := func(c *probe.Config) { probe.SetBudgets(c, map[probe.Handler]int{probe.Exec: 8}) }
	inBubble(t, eight, func(r *rig) {
		dead := probetest.Step{Verdict: probe.Failure, Latency: time.Hour}
		r.prober.Script("dead", probe.Readiness, dead)
		r.addMany("dead", 30, every(1)) // 30 s of work each second
		r.sleep(10 * s)                 // all were tried once
		r.addMany("web", 10, every(1))
		r.sleep(10500 * time.Millisecond)
		require.Equal(t, 8, r.prober.Most())
		pool := r.Pools()[0]
		require.Equal(t, 6, pool.Running)
		require.Equal(t, 6, pool.Slow)
		require.Equal(t, 18, pool.Queued, "six more have just ended and wait for their tick")
		late := 0
		for _, p := range r.probedList() {
			if p.Container == "web" && p.Late > 50*time.Millisecond {
				late++
			}
		}
		require.Zero(t, late)
		require.GreaterOrEqual(t, len(r.when("web", probe.Readiness)), 100)
		require.Greater(t, len(r.when("dead", probe.Readiness)), 110, "six at a time, a second each")
	})
}

// A removed pod leaves the queue, and a budget of one works.
func TestRemoveQueued(t *testing.T) {
	one := func(c *probe.Config) { probe.SetBudgets(c, map[probe.Handler]int{probe.Exec: 1}) }
	inBubble(t, one, func(r *rig) {
		r.prober.Script("web", probe.Readiness, probetest.Step{Verdict: probe.Success, Latency: 100 * time.Millisecond})
		pods := r.addMany("web", 5, every(10))
		r.RemovePod(pods[1].UID)
		r.RemovePod(pods[3].UID)
		require.Equal(t, 2, r.Pools()[0].Queued, "the probe of pod 0 is in progress")
		r.RemovePod(pods[0].UID)
		r.sleep(s)
		var order []types.UID
		for _, c := range r.prober.Calls() {
			order = append(order, c.UID)
		}
		require.Equal(t, []types.UID{"web-0", "web-2", "web-4"}, order)
		require.Equal(t, 1, r.prober.Most())
	})
}

// servers returns the number of goroutines of the pools. NumGoroutine would include goroutines
// that are just ending.
func servers() int {
	stacks := make([]byte, 1<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte(".(*runner).serve("))
}

// The goroutines of a burst of probes end a minute after the last probe.
func TestGoroutinesEndAfterBurst(t *testing.T) {
	ten := func(c *probe.Config) { probe.SetBudgets(c, map[probe.Handler]int{probe.Exec: 10}) }
	inBubble(t, ten, func(r *rig) {
		r.sleep(s) // Run has begun
		require.Zero(t, servers())
		r.prober.Script("slow", probe.Readiness, probetest.Step{Verdict: probe.Success, Latency: 400 * time.Millisecond})
		pods := r.addMany("slow", 10, every(10))
		r.sleep(s)
		require.Equal(t, 10, servers())
		for _, pod := range pods {
			r.RemovePod(pod.UID)
		}
		r.sleep(58 * s)
		require.Equal(t, 10, servers(), "the goroutines wait for the next probes")
		r.sleep(3 * s)
		require.Zero(t, servers())
		r.addMany("again", 3, every(10))
		r.sleep(s)
		require.Len(t, r.when("again", probe.Readiness), 3)
	})
}

// A Prober that ends its goroutine frees its place, and other probes continue.
func TestGoexit(t *testing.T) {
	one := func(c *probe.Config) {
		probe.SetBudgets(c, map[probe.Handler]int{probe.TCPSocket: 1})
		c.Probers[probe.TCPSocket] = probe.ProberFunc(func(_ context.Context, t probe.Target) (probe.Result, error) {
			time.Sleep(10 * time.Millisecond)
			if t.Pod.UID == "tcp-0" {
				runtime.Goexit()
			}
			return probe.Result{Verdict: probe.Success}, nil
		})
	}
	inBubble(t, one, func(r *rig) {
		r.addMany("other", 1, every(5)) // Run sleeps until then
		p := every(10)
		p.ProbeHandler = handler(probe.TCPSocket)
		pods := r.addMany("tcp", 3, p)
		r.sleep(s)
		require.Equal(t, "the prober called runtime.Goexit", r.worker(pods[0], "tcp", probe.Readiness).Output)
		for _, pod := range pods[1:] {
			require.Equal(t, probe.Success, r.results(pod)["tcp Readiness"])
		}
	})
}

// Config.Timing allows periods and timeouts below a second.
func TestTiming(t *testing.T) {
	quick := func(c *probe.Config) {
		c.Timing = func(pod *v1.Pod, c *v1.Container, typ probe.Type) probe.Timing {
			switch pod.UID {
			case "quick":
				return probe.Timing{Period: 100 * time.Millisecond, Timeout: 30 * time.Millisecond}
			case "hasty":
				return probe.Timing{Period: time.Millisecond}
			case "negative":
				return probe.Timing{Timeout: -1}
			}
			return probe.Timing{}
		}
	}
	inBubble(t, quick, func(r *rig) {
		pod := podOf("quick", container("web", probes{probe.Readiness: every(10)}))
		r.set(pod, running("web", "fake://1"))
		r.sleep(950 * time.Millisecond)
		require.Len(t, r.when("web", probe.Readiness), 10)
		r.prober.Script("web", probe.Readiness, probetest.Step{Verdict: probe.Success, Latency: s})
		r.sleep(200 * time.Millisecond)
		require.Equal(t, probe.Failure, r.results(pod)["web Readiness"])
		require.Equal(t, 30*time.Millisecond, r.worker(pod, "web", probe.Readiness).LastTook)

		slow := podOf("slow", container("web", probes{probe.Readiness: every(7)}))
		r.set(slow, running("web", "fake://2"))
		w := r.worker(slow, "web", probe.Readiness)
		require.Equal(t, []time.Duration{7 * s, s}, []time.Duration{w.Period, w.Timeout})

		require.ErrorContains(t, r.AddPod(podOf("hasty", container("web", probes{probe.Readiness: every(7)}))),
			"spec.containers[0].readinessProbe: Config.Timing: Period 1ms: must be at least 10ms")
		require.ErrorContains(t, r.AddPod(podOf("negative", container("web", probes{probe.Readiness: every(7)}))),
			"spec.containers[0].readinessProbe: Config.Timing: Timeout -1ns: must be at least 1ms")
	})
}

// Config.Timing may call the Manager.
func TestTimingIsCalledWithoutLock(t *testing.T) {
	var m *probe.Manager
	cfg := execOnly()
	cfg.Timing = func(pod *v1.Pod, _ *v1.Container, _ probe.Type) probe.Timing {
		return probe.Timing{Period: time.Second * time.Duration(1+len(m.Workers(pod.UID)))}
	}
	m, err := probe.New(cfg)
	require.NoError(t, err)
	pod := podOf("u", container("web", probes{probe.Readiness: every(10)}))
	require.NoError(t, m.AddPod(pod))
	require.NoError(t, m.AddPod(pod))
	require.Equal(t, time.Second, m.Workers("u")[0].Period, "the first Timing applies")
}

// Late executions do not shift the rhythm, and missed ticks are skipped.
func TestRhythm(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		p := every(2)
		p.TimeoutSeconds = 5
		pod := podOf("u", container("web", probes{probe.Readiness: p}))
		r.prober.Script("web", probe.Readiness, succeed(probetest.Step{Verdict: probe.Success, Latency: 4500 * time.Millisecond})...)
		r.set(pod, running("web", "fake://1"))
		r.sleep(11 * s)
		require.Equal(t, []time.Duration{0, 6 * s, 8 * s, 10 * s}, r.when("web", probe.Readiness))
	})
}

// Explanations contain only the start of a long output.
func TestLongOutput(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		long := make([]byte, 1<<20)
		for i := range long {
			long[i] = 'x'
		}
		pod := podOf("u", container("web", probes{probe.Readiness: every(10)}))
		r.prober.Script("web", probe.Readiness, probetest.Step{Verdict: probe.Failure, Output: string(long)})
		r.set(pod, running("web", "fake://1"))
		r.sleep(s)
		require.Len(t, r.worker(pod, "web", probe.Readiness).Output, 256)
		require.Len(t, r.eventList()[0].message, 10<<10)
	})
}

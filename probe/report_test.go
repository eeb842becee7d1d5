package probe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/probetest"
)

// T46, T50: a probe that cannot be carried out is tried three times in a row and does not count.
func TestErrors(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		two := every(10)
		two.FailureThreshold = 2
		pod := podOf("u", container("web", probes{probe.Liveness: two}))
		broken := probetest.Step{Err: errors.New("the runtime is down")}
		r.prober.Script("web", probe.Liveness, fails, broken, broken, broken, broken, broken, probetest.Step{Verdict: probe.Failure})
		r.set(pod, running("web", "fake://1"))
		r.sleep(5 * s)
		require.Equal(t, map[string]probe.Verdict{"web Liveness": probe.Success}, r.results(pod))
		r.sleep(10 * s)
		require.Len(t, r.prober.Calls(), 4)
		w := r.worker(pod, "web", probe.Liveness)
		require.Equal(t, "the runtime is down", w.Output)
		require.Equal(t, probe.Unknown, w.Last)
		require.EqualValues(t, 1, w.Consecutive)
		require.Equal(t, map[string]probe.Verdict{"web Liveness": probe.Success}, r.results(pod))
		r.sleep(10 * s) // two more errors, and the second failure
		require.Len(t, r.prober.Calls(), 7)
		require.Equal(t, map[string]probe.Verdict{"web Liveness": probe.Failure}, r.results(pod))
		require.Equal(t, []probe.Verdict{probe.Failure, probe.Unknown, probe.Failure}, []probe.Verdict{r.probedList()[0].Verdict, r.probedList()[1].Verdict, r.probedList()[2].Verdict})
		var messages []string
		for _, e := range r.eventList() {
			require.Equal(t, "Unhealthy", e.reason)
			messages = append(messages, e.message)
		}
		require.Equal(t, []string{"Liveness probe failed: no", "Liveness probe errored and resulted in unknown state: the runtime is down", "Liveness probe failed: "}, messages)
	})
}

// A cancelled probe is not retried.
func TestCancelledProbeIsNotRetried(t *testing.T) {
	calls := 0
	waits := func(c *probe.Config) {
		c.Probers[probe.Exec] = probe.ProberFunc(func(ctx context.Context, _ probe.Target) (probe.Result, error) {
			calls++
			<-ctx.Done()
			return probe.Result{}, ctx.Err()
		})
	}
	inBubble(t, waits, func(r *rig) {
		r.set(podOf("u", container("web", probes{probe.Readiness: every(10)})), running("web", "fake://1"))
		r.RemovePod("u")
		r.sleep(5 * s)
		require.Equal(t, 1, calls)
		r.set(podOf("v", container("web", probes{probe.Readiness: every(10)})), running("web", "fake://2"))
	})
	require.Equal(t, 2, calls)
}

func TestPanic(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		pod := podOf("u", container("web", probes{probe.Readiness: every(10)}))
		r.prober.Script("web", probe.Readiness, succeed(probetest.Step{Panic: "oh no"})...)
		r.set(pod, running("web", "fake://1"))
		r.sleep(5 * s)
		require.Len(t, r.prober.Calls(), 1, "a panic is not tried again at once")
		require.Equal(t, "the prober panicked: oh no", r.worker(pod, "web", probe.Readiness).Output)
		r.sleep(10 * s)
		require.Equal(t, map[string]probe.Verdict{"web Readiness": probe.Success}, r.results(pod))
	})
}

// Events name the container; warnings count as success.
func TestWarning(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		sidecar := container("side", probes{probe.Readiness: every(10)})
		sidecar.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		pod := podOf("u", container("web", probes{}))
		pod.Spec.InitContainers = []v1.Container{sidecar}
		r.prober.Script("side", probe.Readiness, probetest.Step{Verdict: probe.Warning, Output: "redirected"})
		r.set(pod, running("side", "fake://s"), running("web", "fake://w"))
		r.sleep(s)
		require.Equal(t, map[string]probe.Verdict{"side Readiness": probe.Success}, r.results(pod))
		require.Equal(t, []event{{
			v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "ns", Name: "pod-u", UID: "u", FieldPath: "spec.initContainers{side}"},
			v1.EventTypeWarning, "ProbeWarning", "Readiness probe warning: redirected",
		}}, r.eventList())
		require.Equal(t, probe.Warning, r.probedList()[0].Verdict)
		require.Equal(t, probe.Series{Type: probe.Readiness, UID: "u", Namespace: "ns", Pod: "pod-u", Container: "side"}, r.probedList()[0].Series)
	})
}

// T56: a removed series never comes back.
func TestMetricsRemoved(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		pod := podOf("u", container("web", probes{probe.Readiness: every(10), probe.Liveness: every(10)}))
		r.prober.Script("web", probe.Readiness, probetest.Step{Verdict: probe.Success, Latency: 500 * time.Millisecond})
		r.set(pod, running("web", "fake://1"))
		r.sleep(12 * s)
		want := map[probe.Series]bool{}
		for _, p := range r.probedList() {
			want[p.Series] = true
		}
		require.Len(t, want, 2)
		r.sleep(8200 * time.Millisecond) // during an execution
		count := len(r.probedList())
		r.RemovePod("u")
		require.Len(t, r.removedList(), 2)
		for _, s := range r.removedList() {
			require.True(t, want[s])
		}
		r.sleep(time.Minute)
		require.Len(t, r.probedList(), count)
		r.RemovePod("u")
		require.Len(t, r.removedList(), 2)
	})
}

package writer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status/writer"
)

// storm changes n pods at once, with a sink latency of 10 ms, and makes another pod ready
// meanwhile. It returns the total time and the time until that pod was written.
func storm(r *rig, n int, change func(pod *v1.Pod) v1.PodStatus) (all, one time.Duration) {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = r.sink.Put(newPod(fmt.Sprint("pod-", i)))
		r.Set(pods[i], running(pods[i], false))
	}
	r.pass(time.Minute)
	r.sink.SetLatency(10 * time.Millisecond)
	r.sink.ForgetCalls()
	begin := time.Now()
	for _, pod := range pods[1:] {
		r.Set(pod, change(pod))
	}
	r.pass(33 * time.Millisecond)
	turned := time.Now()
	r.Set(pods[0], running(pods[0], true))
	r.pass(time.Minute)
	calls := r.sink.Calls()
	require.Len(r.t, calls, n, "one call per pod")
	for _, c := range calls {
		all = max(all, c.Ended.Sub(begin))
		if c.Ref.UID == pods[0].UID {
			one = c.Ended.Sub(turned)
		}
	}
	require.Equal(r.t, 16, r.sink.Peak())
	return all, one
}

// 1,000 pods that change at once are written in under 2 s, and a pod that becomes ready meanwhile
// within 50 ms. If all become ready, it is written last.
func TestStorm(t *testing.T) {
	for name, c := range map[string]struct {
		change func(pod *v1.Pod) v1.PodStatus
		one    time.Duration
	}{
		"details":     {func(pod *v1.Pod) v1.PodStatus { return withMessage(running(pod, false), "changed") }, 50 * time.Millisecond},
		"transitions": {func(pod *v1.Pod) v1.PodStatus { return running(pod, true) }, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(r *rig) {
				all, one := storm(r, 1001, c.change)
				require.Less(t, all, 2*time.Second)
				require.Less(t, one, c.one)
			})
		})
	}
}

// A detail is written even if transitions never stop.
func TestDetailsAreWrittenInAStorm(t *testing.T) {
	bubble(t, func(cfg *writer.Config) { writer.LimitWrites(cfg, 1) }, func(r *rig) {
		var pods []*v1.Pod
		for i := range 10 {
			pods = append(pods, r.sink.Put(newPod(fmt.Sprint("pod-", i))))
			r.Set(pods[i], running(pods[i], false))
		}
		r.pass(time.Second)
		r.sink.SetLatency(10 * time.Millisecond)
		r.Set(pods[0], withMessage(running(pods[0], false), "detail"))
		for i := range 1100 { // longer than urgencyLead
			for _, pod := range pods[1:] {
				r.Set(pod, running(pod, i%2 == 0))
			}
			r.pass(10 * time.Millisecond)
		}
		require.Equal(t, "detail", r.pod("pod-0").Status.Message)
	})
}

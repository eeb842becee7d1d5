package writer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/status/writer"
)

// Pods wait for their writes in the order of urgency: ends and removals first, then other phases
// and Ready conditions, then details. Equally urgent pods keep the order of their changes.
func TestOrderOfWrites(t *testing.T) {
	const end, transition, detail = "end of the pod", "phase or readiness", "details"
	ready := func(pod *v1.Pod) v1.PodStatus { return running(pod, true) }
	unready := func(pod *v1.Pod) v1.PodStatus { return running(pod, false) }
	failed := func(pod *v1.Pod) v1.PodStatus { return ended(pod, 1) }
	succeeded := func(pod *v1.Pod) v1.PodStatus { return ended(pod, 0) }
	type state func(*v1.Pod) v1.PodStatus
	changed := func(s state) state {
		return func(pod *v1.Pod) v1.PodStatus { return withMessage(s(pod), "changed") }
	}
	rows := []struct {
		name          string
		before, after state // without before, the status is the first; without after, the pod is removed
		why           string
	}{
		{"detail", unready, changed(unready), detail},
		{"detail of an end", failed, changed(failed), detail},
		{"ready unchanged", ready, changed(ready), detail},
		{"begin", nil, unready, transition},
		{"ready", unready, ready, transition},
		{"unready", ready, unready, transition},
		{"another end", failed, succeeded, transition},
		{"end", ready, failed, end},
		{"removal", failed, nil, end},
		{"first status is an end", nil, failed, end},
	}
	bubble(t, func(cfg *writer.Config) { writer.LimitWrites(cfg, 1) }, func(r *rig) {
		blocker := r.sink.Put(newPod("blocker"))
		r.Set(blocker, running(blocker, false))
		for _, row := range rows {
			if pod := r.sink.Put(newPod(row.name)); row.before != nil {
				r.Set(pod, row.before(pod))
			}
		}
		r.pass(time.Second)
		r.fail(statustest.Patch, statustest.Fault{Latency: time.Second})
		r.Set(blocker, running(blocker, true))
		r.pass(0)
		r.sink.Fail(nil)
		r.sink.ForgetCalls()
		for _, row := range rows {
			pod := r.pod(row.name)
			if row.after == nil {
				require.NoError(t, r.Terminate(r.sink.MarkDeleted("ns", row.name)))
			} else {
				r.Set(pod, row.after(pod))
			}
			r.pass(time.Millisecond)
			x, _ := r.Explain(pod.UID)
			require.Equal(t, "the write is queued: "+row.why, x.Why, row.name)
		}
		r.pass(time.Second)
		var got []string
		for _, c := range r.sink.Calls() {
			got = append(got, c.Ref.Name)
		}
		var want []string
		for _, why := range []string{end, transition, detail} {
			for _, row := range rows {
				if row.why == why {
					want = append(want, row.name)
				}
			}
		}
		require.Equal(t, want, slices.Compact(got))
	})
}

// A failed call is retried after 200 ms, then after twice the last pause, up to 10 s. Pauses are
// shorter by up to a quarter, which depends on the pod.
func TestPauses(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		r.sink.SetDown(errDown)
		pods := []*v1.Pod{r.sink.Put(newPod("a")), r.sink.Put(newPod("b")), r.sink.Put(newPod("c"))}
		for _, pod := range pods {
			r.Set(pod, running(pod, true))
		}
		r.pass(time.Minute)
		first := map[time.Duration]bool{}
		for _, pod := range pods {
			var at []time.Time
			for _, c := range r.sink.Calls() {
				if c.Ref.UID == pod.UID {
					at = append(at, c.At)
				}
			}
			for i, ms := range []time.Duration{200, 400, 800, 1600, 3200, 6400, 10000, 10000} {
				pause := at[i+1].Sub(at[i])
				require.LessOrEqual(t, pause, ms*time.Millisecond)
				require.Greater(t, pause, ms*time.Millisecond*3/4-1)
			}
			first[at[1].Sub(at[0])] = true
		}
		require.Greater(t, len(first), 1, "pauses are spread")
	})
}

// A change that is more urgent than the failed write does not wait for the end of the pause.
func TestTransitionEndsPause(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		r.Set(pod, running(pod, false))
		r.pass(0)
		r.sink.SetDown(errDown)
		r.Set(pod, withMessage(running(pod, false), "detail"))
		r.pass(time.Minute)
		r.sink.SetDown(nil)
		r.Set(pod, withMessage(running(pod, false), "another detail"))
		r.pass(0)
		require.Empty(t, r.pod("a").Status.Message, "a detail waits")
		r.Set(pod, running(pod, true))
		r.pass(0)
		require.Equal(t, "True", value(&r.pod("a").Status, v1.PodReady))
	})
}

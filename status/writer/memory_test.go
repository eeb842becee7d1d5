package writer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status/statustest"
	"github.com/podwright/podwright/status/writer"
)

// A Writer without a sink returns the set or restored statuses.
func TestMemoryOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changed []types.UID
		w := newWriter(t, writer.Config{OnChange: func(uid types.UID) { changed = append(changed, uid) }})
		stop, pod := start(t, w), newPod("a")
		synctest.Wait()
		require.Nil(t, w.Get(pod.UID))
		w.Change(pod.UID, func(s v1.PodStatus) v1.PodStatus { s.Phase = v1.PodFailed; return s })
		require.Nil(t, w.Get(pod.UID), "Change creates no status")
		w.Set(pod, v1.PodStatus{Phase: v1.PodRunning})
		w.Set(pod, v1.PodStatus{Phase: v1.PodRunning})
		require.Equal(t, v1.PodRunning, w.Get(pod.UID).Phase)
		require.Equal(t, []types.UID{pod.UID}, changed, "an equal status is not a change")
		w.Change(pod.UID, func(s v1.PodStatus) v1.PodStatus { return withMessage(s, "changed") })
		require.Equal(t, "changed", w.Get(pod.UID).Message)
		ips := []v1.PodIP{{IP: "192.0.2.1"}}
		w.Set(pod, v1.PodStatus{Phase: v1.PodRunning, PodIPs: ips})
		ips[0].IP = "192.0.2.2"
		require.Equal(t, "192.0.2.1", w.Get(pod.UID).PodIPs[0].IP, "Set stores a copy")
		require.Len(t, w.Pods(), 1)
		w.Prune(func(types.UID) bool { return false })
		require.Nil(t, w.Get(pod.UID))
		require.Empty(t, w.Pods())
		require.NoError(t, stop())
	})
}

// Run writes statuses that were set before. A second Run fails.
func TestRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := statustest.NewSink()
		sink.SetLatency(time.Second)
		w := newWriter(t, writer.Config{Sinks: sinks(sink)})
		pod := sink.Put(newPod("a"))
		w.Set(pod, withMessage(running(pod, true), "before"))
		stop := start(t, w)
		time.Sleep(time.Minute)
		require.ErrorIs(t, w.Run(t.Context()), writer.ErrAlreadyRun)
		require.NoError(t, stop())
		require.Equal(t, "before", sink.Pod("ns", "a").Status.Message)
		require.Empty(t, sink.Overlaps())
		require.ErrorIs(t, w.Run(t.Context()), writer.ErrAlreadyRun)
	})
}

// A restored status is only the base of the next one.
func TestRestore(t *testing.T) {
	bubble(t, nil, func(r *rig) {
		pod := r.sink.Put(newPod("a"))
		old := ended(pod, 7)
		r.Restore(pod, old)
		require.Equal(t, int32(7), r.Get(pod.UID).ContainerStatuses[0].State.Terminated.ExitCode)
		r.pass(time.Minute)
		require.Empty(t, r.sink.Calls(), "a restored status is not written")
		r.Observe(r.pod("a"))
		r.pass(time.Minute)
		require.Empty(t, r.sink.Calls(), "nor after an observation")
		r.Set(pod, running(pod, true))
		require.NotNil(t, r.Get(pod.UID).ContainerStatuses[0].State.Terminated, "T33 the exit code is kept")
		r.pass(time.Minute)
		require.Empty(t, r.sink.Calls(), "a rejected status causes no write")
		r.Set(pod, withMessage(old, "again"))
		r.Restore(pod, running(pod, true))
		require.Equal(t, "again", r.Get(pod.UID).Message, "Restore does not replace a status")
		r.pass(0)
		require.Equal(t, "again", r.pod("a").Status.Message)

		began := metav1.NewTime(time.Now().Add(time.Millisecond))
		precise, s := newPod("c"), running(pod, true)
		s.StartTime = &began
		r.Restore(precise, s)
		s.ContainerStatuses[0].RestartCount = 9
		require.True(t, r.Get(precise.UID).StartTime.Equal(&metav1.Time{Time: began.Truncate(time.Second)}), "in whole seconds")
		require.Zero(t, r.Get(precise.UID).ContainerStatuses[0].RestartCount, "Restore stores a copy")

		same := r.sink.Put(newPod("b"))
		start := metav1.Now()
		s = running(same, true)
		s.StartTime = &start
		r.Restore(same, s)
		r.changed = nil
		r.Set(same, s)
		require.Len(t, r.changed, 1, "the first Set after Restore is a change")
		r.pass(0)
		require.Equal(t, v1.PodRunning, r.pod("b").Status.Phase, "a status equal to the restored one is written, because the sink may lack it")
	})
}

// Conditions of another kind of agent, in the pod or its mirror, count if they changed later: no
// condition goes back in time.
func TestRestoreAfterAnotherAgent(t *testing.T) {
	condition := func(s v1.ConditionStatus, ago time.Duration) v1.PodCondition {
		return v1.PodCondition{Type: v1.PodReady, Status: s, LastTransitionTime: metav1.NewTime(time.Now().Add(-ago))}
	}
	bubble(t, mirrors, func(r *rig) {
		r.pass(time.Hour)
		for name, c := range map[string]struct{ kept, shown, want v1.PodCondition }{
			"API changed later":      {condition("False", time.Minute), condition("True", time.Second), condition("True", time.Second)},
			"restored changed later": {condition("False", time.Second), condition("True", time.Minute), condition("False", time.Second)},
			"the same":               {condition("False", time.Second), condition("True", time.Second), condition("False", time.Second)},
		} {
			pod := newPod(name)
			pod.Status.Conditions = []v1.PodCondition{{Type: "Theirs"}, c.shown}
			kept := running(pod, true)
			kept.Conditions = []v1.PodCondition{c.kept}
			r.Restore(pod, kept)
			require.Len(t, r.Get(pod.UID).Conditions, 1, name)
			require.Equal(t, c.want.Status, r.Get(pod.UID).Conditions[0].Status, name)
			require.True(t, c.want.LastTransitionTime.Equal(&r.Get(pod.UID).Conditions[0].LastTransitionTime), name)
			require.Equal(t, c.kept.Status, kept.Conditions[0].Status, "Restore does not change its argument")

			static := staticPod("static " + name)
			mirror, publish := r.mirror(static, "mirror")
			mirror.Status.Conditions = pod.Status.Conditions
			publish()
			r.Restore(static, kept)
			require.Equal(t, c.want.Status, r.Get(static.UID).Conditions[0].Status, name)
		}
	})
}

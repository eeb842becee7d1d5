package status

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
)

// 6.3: what is written over what is there.
func TestMerge(t *testing.T) {
	at := now.Add(time.Hour)
	foreign, stale := is("example.com/new", v1.ConditionTrue), is("example.com/stale", v1.ConditionTrue)
	disrupted := is(v1.DisruptionTarget, v1.ConditionTrue)
	disrupted.Reason = v1.PodReasonTerminationByKubelet
	status := func(phase v1.PodPhase, conditions ...v1.PodCondition) *v1.PodStatus {
		return &v1.PodStatus{Phase: phase, Conditions: conditions}
	}
	merged := func(there, wanted *v1.PodStatus, mayRun bool) v1.PodStatus {
		pod := &v1.Pod{Status: *there}
		before, want := pod.DeepCopy(), wanted.DeepCopy()
		s := Merge(pod, wanted, mayRun, at)
		require.Equal(t, before, pod, "what is there is not changed")
		require.Equal(t, want, wanted)
		return s
	}
	t.Run("T22 foreign conditions are those that are there", func(t *testing.T) {
		s := merged(status(v1.PodRunning, is(v1.PodReady, v1.ConditionFalse), foreign), status(v1.PodRunning, stale, is(v1.PodReady, v1.ConditionTrue), is(v1.PodInitialized, v1.ConditionTrue)), false)
		require.Equal(t, []v1.PodCondition{is(v1.PodReady, v1.ConditionTrue), foreign, is(v1.PodInitialized, v1.ConditionTrue)}, s.Conditions)
	})
	t.Run("conditions of ours that are wanted no more go", func(t *testing.T) {
		s := merged(status(v1.PodRunning, is(v1.PodResizePending, v1.ConditionTrue), foreign), status(v1.PodRunning), false)
		require.Equal(t, []v1.PodCondition{foreign}, s.Conditions)
	})
	t.Run("a condition that is there twice is written once", func(t *testing.T) {
		s := merged(status(v1.PodRunning, is(v1.PodReady, v1.ConditionFalse), is(v1.PodReady, v1.ConditionTrue)), status(v1.PodRunning, is(v1.PodReady, v1.ConditionTrue)), false)
		require.Equal(t, []v1.PodCondition{is(v1.PodReady, v1.ConditionTrue)}, s.Conditions)
	})
	t.Run("what others own stays", func(t *testing.T) {
		there := status(v1.PodRunning)
		there.NominatedNodeName, there.ResourceClaimStatuses = "node", []v1.PodResourceClaimStatus{{Name: "claim"}}
		there.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "r"}
		there.NodeAllocatableResourceClaimStatuses = []v1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: "n"}}
		s := merged(there, status(v1.PodRunning), false)
		require.Equal(t, *there, v1.PodStatus{Phase: s.Phase, NominatedNodeName: s.NominatedNodeName, ResourceClaimStatuses: s.ResourceClaimStatuses,
			ExtendedResourceClaimStatus: s.ExtendedResourceClaimStatus, NodeAllocatableResourceClaimStatuses: s.NodeAllocatableResourceClaimStatuses})
	})
	t.Run("T28 an end waits for the containers", func(t *testing.T) {
		there, wanted := status(v1.PodRunning), status(v1.PodFailed, disrupted)
		there.Reason, wanted.Reason, wanted.Message = "r", "Evicted", "m"
		s := merged(there, wanted, true)
		require.Equal(t, [3]string{"Running", "r", ""}, [3]string{string(s.Phase), s.Reason, s.Message})
		require.Nil(t, podfacts.Condition(s.Conditions, v1.DisruptionTarget), "T21 not before the end")
		s = merged(there, wanted, false)
		require.Equal(t, [3]string{"Failed", "Evicted", "m"}, [3]string{string(s.Phase), s.Reason, s.Message})
		require.Equal(t, "True TerminationByKubelet", cond(s, v1.DisruptionTarget), "T21 together with the end")
		require.True(t, podfacts.Condition(s.Conditions, v1.DisruptionTarget).LastTransitionTime.Time.Equal(at))
	})
	t.Run("what is no end waits for nothing", func(t *testing.T) {
		wanted := status(v1.PodRunning)
		wanted.Reason, wanted.Message = "r", "m"
		s := merged(status(v1.PodPending), wanted, true)
		require.Equal(t, [3]string{"Running", "r", "m"}, [3]string{string(s.Phase), s.Reason, s.Message})
		s = merged(status(v1.PodFailed), status(v1.PodFailed), true)
		require.Equal(t, v1.PodFailed, s.Phase)
	})
	t.Run("T21 no disruption after the end", func(t *testing.T) {
		for _, mayRun := range []bool{false, true} {
			s := merged(status(v1.PodFailed), status(v1.PodFailed, disrupted), mayRun)
			require.Equal(t, "absent", cond(s, v1.DisruptionTarget))
			s = merged(status(v1.PodSucceeded), status(v1.PodFailed, disrupted), mayRun)
			require.Equal(t, "absent", cond(s, v1.DisruptionTarget))
		}
	})
	t.Run("T21 no end, no disruption", func(t *testing.T) {
		require.Equal(t, "absent", cond(merged(status(v1.PodRunning), status(v1.PodRunning, disrupted), false), v1.DisruptionTarget))
		other := is(v1.DisruptionTarget, v1.ConditionTrue)
		other.Reason = "EvictionByEvictionAPI"
		s := merged(status(v1.PodRunning, other), status(v1.PodRunning, disrupted), false)
		require.Equal(t, "True EvictionByEvictionAPI", cond(s, v1.DisruptionTarget), "another's stays")
		s = merged(status(v1.PodRunning, other), status(v1.PodFailed, disrupted), false)
		require.Equal(t, "True TerminationByKubelet", cond(s, v1.DisruptionTarget))
		require.True(t, podfacts.Condition(s.Conditions, v1.DisruptionTarget).LastTransitionTime.Time.Equal(before), "it was true before")
	})
	t.Run("T19 what has ended is not ready", func(t *testing.T) {
		ready := []v1.PodCondition{is(v1.PodReady, v1.ConditionTrue), is(v1.ContainersReady, v1.ConditionTrue)}
		s := merged(status(v1.PodRunning, ready...), status(v1.PodFailed, ready...), false)
		require.Equal(t, [2]string{"False PodFailed", "False PodFailed"}, [2]string{cond(s, v1.PodReady), cond(s, v1.ContainersReady)})
		require.True(t, podfacts.Condition(s.Conditions, v1.PodReady).LastTransitionTime.Time.Equal(at))
		s = merged(status(v1.PodRunning, ready...), status(v1.PodSucceeded, ready...), false)
		require.Equal(t, "False PodCompleted", cond(s, v1.PodReady))
		s = merged(status(v1.PodRunning, ready...), status(v1.PodFailed, ready...), true)
		require.Equal(t, "True", cond(s, v1.PodReady), "not yet")
		kept := is(v1.PodReady, v1.ConditionFalse)
		kept.Reason = "ContainersNotReady"
		require.Equal(t, "False ContainersNotReady", cond(merged(status(v1.PodRunning), status(v1.PodFailed, kept), false), v1.PodReady))
	})
	t.Run("an end that is there stays, but for mirror pods", func(t *testing.T) {
		there, wanted := status(v1.PodFailed), status(v1.PodRunning, is(v1.PodReady, v1.ConditionTrue))
		there.Reason = "Evicted"
		s := merged(there, wanted, false)
		require.Equal(t, [2]string{"Failed", "Evicted"}, [2]string{string(s.Phase), s.Reason})
		require.Equal(t, "False PodFailed", cond(s, v1.PodReady))
		mirror := &v1.Pod{Status: *there}
		mirror.Annotations = map[string]string{"kubernetes.io/config.mirror": "x"}
		require.Equal(t, v1.PodRunning, Merge(mirror, wanted, false, at).Phase)
	})
	t.Run("T23 the generation never falls", func(t *testing.T) {
		there, wanted := status(v1.PodRunning), status(v1.PodRunning)
		there.ObservedGeneration, wanted.ObservedGeneration = 3, 2
		require.Equal(t, int64(3), merged(there, wanted, false).ObservedGeneration)
	})
	t.Run("nothing to write", func(t *testing.T) {
		in := steady()
		there := Normalize(in.Pod, *in.Previous)
		s := merged(&there, in.Previous, true)
		require.True(t, Equal(&there, &s))
	})
	t.Run("a 10 MB condition from outside is neither copied nor changed", func(t *testing.T) {
		huge := foreign
		huge.Message = strings.Repeat("- yaml\n", 10<<20/7)
		pod := &v1.Pod{Status: *status(v1.PodRunning, huge)}
		wanted := status(v1.PodRunning, is(v1.PodReady, v1.ConditionTrue))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 100 {
			Merge(pod, wanted, false, at)
		}
		runtime.ReadMemStats(&after)
		bytes := (after.TotalAlloc - before.TotalAlloc) / 100
		require.Less(t, bytes, uint64(1<<20))
	})
}

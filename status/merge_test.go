package status

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status/internal/podstatus"
)

// summary returns a status as a line: phase, reason, message, and conditions with the minutes from
// before to their transition.
func summary(s v1.PodStatus) string {
	line := string(s.Phase) + "/" + s.Reason + "/" + s.Message
	for _, c := range s.Conditions {
		line += fmt.Sprintf(" %s=%s@%v", c.Type, strings.TrimSpace(string(c.Status)+" "+c.Reason), c.LastTransitionTime.Sub(before).Minutes())
	}
	return line
}

// 6.3: merges of a computed status over another, an hour after the transitions of both.
func TestMerge(t *testing.T) {
	const yes, no = v1.ConditionTrue, v1.ConditionFalse
	because := func(reason string, c v1.PodCondition) v1.PodCondition { c.Reason = reason; return c }
	of := func(phase v1.PodPhase, conditions ...v1.PodCondition) v1.PodStatus {
		return v1.PodStatus{Phase: phase, Conditions: conditions}
	}
	why := func(reason, message string, s v1.PodStatus) v1.PodStatus {
		s.Reason, s.Message = reason, message
		return s
	}
	pending, running, failed, succeeded := of(v1.PodPending), of(v1.PodRunning), of(v1.PodFailed), of(v1.PodSucceeded)
	foreign, stale := is("New", yes), is("Stale", yes)
	ours, theirs := because("TerminationByKubelet", is(v1.DisruptionTarget, yes)), because("Eviction", is(v1.DisruptionTarget, yes))
	ready := []v1.PodCondition{is(v1.PodReady, yes), is(v1.ContainersReady, yes)}
	for _, tc := range []struct {
		name          string
		there, wanted v1.PodStatus
		mayRun        bool
		want          string
	}{
		{"T22 foreign conditions come from the API server", of("Running", is(v1.PodReady, no), foreign), of("Running", stale, is(v1.PodReady, yes), is(v1.PodInitialized, yes)), false, "Running// Ready=True@0 New=True@0 Initialized=True@0"},
		{"own conditions are removed", of("Running", is(v1.PodResizePending, yes), foreign), running, false, "Running// New=True@0"},
		{"a duplicate condition is written once", of("Running", is(v1.PodReady, no), is(v1.PodReady, yes)), of("Running", is(v1.PodReady, yes)), false, "Running// Ready=True@0"},
		{"T28, T21 an end and its disruption wait for the containers", why("r", "", running), why("Evicted", "m", of("Failed", ours)), true, "Running/r/"},
		{"T21 disruption comes with the end", why("r", "", running), why("Evicted", "m", of("Failed", ours)), false, "Failed/Evicted/m DisruptionTarget=True TerminationByKubelet@60"},
		{"only an end waits for containers", pending, why("r", "m", running), true, "Running/r/m"},
		{"an existing end does not wait for containers", failed, failed, true, "Failed//"},
		{"T21 no disruption after the end", failed, of("Failed", ours), false, "Failed//"},
		{"T21 no disruption after the end, while containers run", failed, of("Failed", ours), true, "Failed//"},
		{"T21 no disruption after another end", succeeded, of("Failed", ours), false, "Failed//"},
		{"T21 no disruption after another end, while containers run", succeeded, of("Failed", ours), true, "Failed//"},
		{"T21 no end, no disruption", running, of("Running", ours), false, "Running//"},
		{"another's disruption stays", of("Running", theirs), of("Running", ours), false, "Running// DisruptionTarget=True Eviction@0"},
		{"disruption keeps its transition time", of("Running", theirs), of("Failed", ours), false, "Failed// DisruptionTarget=True TerminationByKubelet@0"},
		{"T19 a failed pod is not ready", of("Running", ready...), of("Failed", ready...), false, "Failed// Ready=False PodFailed@60 ContainersReady=False PodFailed@60"},
		{"T19 a succeeded pod is not ready", of("Running", ready...), of("Succeeded", ready...), false, "Succeeded// Ready=False PodCompleted@60 ContainersReady=False PodCompleted@60"},
		{"T19 a pod with running containers stays ready", of("Running", ready...), of("Failed", ready...), true, "Running// Ready=True@0 ContainersReady=True@0"},
		{"T19 an unready pod keeps its reason", running, of("Failed", because("ContainersNotReady", is(v1.PodReady, no))), false, "Failed// Ready=False ContainersNotReady@0"},
		{"an existing end stays", why("Evicted", "", failed), of("Running", is(v1.PodReady, yes)), false, "Failed/Evicted/ Ready=False PodFailed@60"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &v1.Pod{Status: tc.there}
			there, wanted := pod.DeepCopy(), tc.wanted.DeepCopy()
			require.Equal(t, tc.want, summary(podstatus.Merge(pod, &tc.wanted, tc.mayRun, now)))
			require.Equal(t, there, pod, "the arguments are not changed")
			require.Equal(t, *wanted, tc.wanted)
		})
	}
	mirror := &v1.Pod{Status: failed}
	mirror.Annotations = map[string]string{podfacts.ConfigMirror: "x"}
	require.Equal(t, v1.PodRunning, podstatus.Merge(mirror, &running, false, now).Phase, "a static pod can restart after its end")
}

// Merge keeps fields of other components, never lowers a generation (T23), and skips equal
// statuses.
func TestMergeKeeps(t *testing.T) {
	there := v1.PodStatus{
		Phase: v1.PodRunning, Conditions: []v1.PodCondition{}, NominatedNodeName: "node", ResourceClaimStatuses: []v1.PodResourceClaimStatus{{Name: "claim"}}, ObservedGeneration: 3,
		ExtendedResourceClaimStatus:          &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "r"},
		NodeAllocatableResourceClaimStatuses: []v1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: "n"}},
	}
	require.Equal(t, there, podstatus.Merge(&v1.Pod{Status: there}, &v1.PodStatus{Phase: v1.PodRunning, ObservedGeneration: 2}, false, now))
	in := steady()
	normal := podstatus.Normalize(in.Pod, *in.Previous)
	s := podstatus.Merge(&v1.Pod{Status: normal}, in.Previous, true, now)
	require.True(t, podstatus.Equal(&normal, &s))
}

// A 10 MB condition of another component is neither copied nor changed.
func TestMergeOfAHugeCondition(t *testing.T) {
	huge := is("Huge", v1.ConditionTrue)
	huge.Message = strings.Repeat("- yaml\n", 10<<20/7)
	pod, wanted := &v1.Pod{Status: *withConditions(huge)}, withConditions(is(v1.PodReady, v1.ConditionTrue))
	var first, last runtime.MemStats
	runtime.ReadMemStats(&first)
	for range 100 {
		podstatus.Merge(pod, wanted, false, now)
	}
	runtime.ReadMemStats(&last)
	require.Less(t, (last.TotalAlloc-first.TotalAlloc)/100, uint64(1<<20))
}

package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/pleg"
)

func withConditions(conditions ...v1.PodCondition) *v1.PodStatus {
	return &v1.PodStatus{Conditions: conditions}
}

func is(t v1.PodConditionType, status v1.ConditionStatus) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: status, LastTransitionTime: metav1.NewTime(before)}
}

func TestInitialized(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "i:i", "s:s", "c")
	on := true
	initDone := v1.ContainerStatus{Name: "i", Ready: true, State: wasTerminated(0, "")}
	initRuns := v1.ContainerStatus{Name: "i", State: wasRunning()}
	sidecarUp := v1.ContainerStatus{Name: "s", Started: &on, State: wasRunning()}
	sidecarDown := v1.ContainerStatus{Name: "s", State: wasRunning()}
	waits := v1.ContainerStatus{Name: "c", State: wasWaiting("x")}
	for _, tc := range []struct {
		name string
		s    v1.PodStatus
		old  *v1.PodStatus
		want verdict
	}{
		{"nothing known", v1.PodStatus{}, withConditions(), verdict{reason: "UnknownContainerStatuses"}},
		{"completed", v1.PodStatus{Phase: v1.PodSucceeded, InitContainerStatuses: []v1.ContainerStatus{initRuns, sidecarDown}}, withConditions(), verdict{ok: true, reason: "PodCompleted"}},
		{"completed but one unknown", v1.PodStatus{Phase: v1.PodSucceeded, InitContainerStatuses: []v1.ContainerStatus{sidecarUp}}, withConditions(), verdict{reason: "ContainersNotInitialized", message: "containers with unknown status: [i]"}},
		{"a regular container runs", v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{initRuns, sidecarDown}, ContainerStatuses: []v1.ContainerStatus{{Name: "c", State: wasRunning()}}}, withConditions(), verdict{ok: true}},
		{"a regular container ended", v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c", State: wasTerminated(1, "")}}}, withConditions(), verdict{ok: true}},
		{"init incomplete", v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{initRuns, sidecarUp}, ContainerStatuses: []v1.ContainerStatus{waits}}, withConditions(), verdict{reason: "ContainersNotInitialized", message: "containers with incomplete status: [i]"}},
		{"one unknown, one incomplete", v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{initRuns}}, withConditions(), verdict{reason: "ContainersNotInitialized", message: "containers with unknown status: [s], containers with incomplete status: [i]"}},
		{"sidecar incomplete", v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{initDone, sidecarDown}, ContainerStatuses: []v1.ContainerStatus{waits}}, withConditions(is(v1.PodInitialized, v1.ConditionFalse)), verdict{reason: "ContainersNotInitialized", message: "containers with incomplete status: [s]"}},
		{"was initialized before", v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{initRuns, sidecarDown}}, withConditions(is(v1.PodInitialized, v1.ConditionTrue)), verdict{ok: true}},
		{"all done", v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{initDone, sidecarUp}, ContainerStatuses: []v1.ContainerStatus{waits}}, withConditions(), verdict{ok: true}},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, initialized(pod, &tc.s, tc.old)) })
	}
	require.Equal(t, verdict{ok: true}, initialized(podOf(v1.RestartPolicyAlways, "c"), &v1.PodStatus{}, withConditions()))
	require.Equal(t, verdict{reason: "UnknownContainerStatuses"}, initialized(podOf(v1.RestartPolicyAlways, "i:i", "c"), &v1.PodStatus{}, withConditions()))
}

// T18 and the rows of ContainersReady.
func TestContainersReady(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "i:i", "s:s", "c")
	both := func(s, c bool) v1.PodStatus {
		return v1.PodStatus{
			InitContainerStatuses: []v1.ContainerStatus{{Name: "i"}, {Name: "s", Ready: s}},
			ContainerStatuses:     []v1.ContainerStatus{{Name: "c", Ready: c}},
		}
	}
	phase := func(p v1.PodPhase, s v1.PodStatus) v1.PodStatus { s.Phase = p; return s }
	for _, tc := range []struct {
		name string
		s    v1.PodStatus
		want verdict
	}{
		{"nothing known", v1.PodStatus{}, verdict{reason: "UnknownContainerStatuses"}},
		{"completed", phase(v1.PodSucceeded, both(false, false)), verdict{reason: "PodCompleted"}},
		{"completed but one unknown", phase(v1.PodSucceeded, v1.PodStatus{ContainerStatuses: both(false, false).ContainerStatuses}), verdict{reason: "ContainersNotReady", message: "containers with unknown status: [s], containers with unready status: [c]"}},
		{"T19 failed", phase(v1.PodFailed, both(true, true)), verdict{reason: "PodFailed"}},
		{"T18 sidecar unready", both(false, true), verdict{reason: "ContainersNotReady", message: "containers with unready status: [s]"}},
		{"two unready", both(false, false), verdict{reason: "ContainersNotReady", message: "containers with unready status: [s c]"}},
		{"one unknown", v1.PodStatus{InitContainerStatuses: both(true, true).InitContainerStatuses}, verdict{reason: "ContainersNotReady", message: "containers with unknown status: [c]"}},
		{"T18 plain init never counts", both(true, true), verdict{ok: true}},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, containersReady(pod, &tc.s)) })
	}
}

// T17
func TestReadinessGates(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "c")
	pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	in := Input{Pod: pod, Observed: observe(running("c"))}
	s := compute(t, in)
	require.Equal(t, "False ReadinessGatesNotReady", cond(s, v1.PodReady))
	require.Equal(t, "True", cond(s, v1.ContainersReady))
	missing := podfacts.Condition(s.Conditions, v1.PodReady).Message
	in.API = withConditions(is("example.com/gate", v1.ConditionFalse))
	s = compute(t, in)
	require.Equal(t, "False ReadinessGatesNotReady", cond(s, v1.PodReady))
	require.NotEqual(t, missing, podfacts.Condition(s.Conditions, v1.PodReady).Message, "the message follows")
	in.API = withConditions(is("example.com/gate", v1.ConditionTrue))
	require.Equal(t, "True", cond(compute(t, in), v1.PodReady))
	in.Observed = observe(exited("c", 1))
	s = compute(t, in)
	require.Equal(t, "False ContainersNotReady", cond(s, v1.PodReady))
	require.Equal(t, podfacts.Condition(s.Conditions, v1.ContainersReady).Message, podfacts.Condition(s.Conditions, v1.PodReady).Message)
}

// T19: in one and the same status.
func TestFailedIsNotReady(t *testing.T) {
	s := compute(t, Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Observed: observe(running("c")), Fail: &Reason{Reason: "Evicted"}})
	require.True(t, s.ContainerStatuses[0].Ready)
	require.Equal(t, v1.PodFailed, s.Phase)
	require.Equal(t, "False PodFailed", cond(s, v1.PodReady))
	require.Equal(t, "False PodFailed", cond(s, v1.ContainersReady))
}

// T20 and the sandbox's table.
func TestReadyToStartContainers(t *testing.T) {
	ready := pleg.Sandbox{ID: "sb", State: pleg.SandboxReady, HasNetworkStatus: true, IPs: []string{"10.0.0.1"}}
	stopped, addressless, host := ready, ready, ready
	stopped.State, addressless.IPs, host.HostNetwork = pleg.SandboxNotReady, nil, true
	for _, tc := range []struct {
		name      string
		sandboxes []pleg.Sandbox
		want      string
	}{
		{"none", nil, "False"},
		{"T20 ready while the image is pulled", []pleg.Sandbox{ready}, "True"},
		{"stopped", []pleg.Sandbox{stopped}, "False"},
		{"without address", []pleg.Sandbox{addressless}, "False"},
		{"wrong network", []pleg.Sandbox{host}, "False"},
		{"two ready", []pleg.Sandbox{ready, ready}, "False"},
		{"an old one beside", []pleg.Sandbox{ready, stopped}, "True"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := compute(t, Input{
				Pod: podOf(v1.RestartPolicyAlways, "c"), Observed: &pleg.PodStatus{Sandboxes: tc.sandboxes},
				StartFailures: map[string]Reason{"c": {Reason: "ErrImagePull"}},
			})
			require.Equal(t, tc.want, cond(s, v1.PodReadyToStartContainers))
			require.Equal(t, "True", cond(s, v1.PodScheduled))
		})
	}
}

// Conditions of others come from the API server only; some of our own are passed on.
func TestOtherConditions(t *testing.T) {
	in := Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Observed: observe(running("c"))}
	in.API = withConditions(is("example.com/new", v1.ConditionTrue), is(v1.PodReady, v1.ConditionFalse), is(v1.PodResizePending, v1.ConditionTrue))
	in.Previous = withConditions(is("example.com/stale", v1.ConditionTrue), is(v1.PodResizeInProgress, v1.ConditionTrue), is(v1.DisruptionTarget, v1.ConditionTrue))
	s := compute(t, in)
	require.Equal(t, "True", cond(s, "example.com/new"))
	require.Equal(t, "absent", cond(s, "example.com/stale"), "what others took back is not resurrected")
	require.Equal(t, "absent", cond(s, v1.PodResizePending))
	require.Equal(t, "True", cond(s, v1.PodResizeInProgress))
	require.Equal(t, "True", cond(s, v1.DisruptionTarget))
	require.Equal(t, "absent", cond(s, v1.AllContainersRestarting), "no container has such a rule")
	in.Fail = &Reason{Reason: "Evicted"}
	s = compute(t, in)
	require.Equal(t, "absent", cond(s, v1.PodResizeInProgress), "what has ended is resized no more")
	require.Equal(t, "True", cond(s, v1.DisruptionTarget))
	seen := map[v1.PodConditionType]bool{}
	for _, c := range s.Conditions {
		require.False(t, seen[c.Type], c.Type)
		seen[c.Type] = true
	}
}

func TestRestartingAllCondition(t *testing.T) {
	pod := podOf(v1.RestartPolicyNever, "c")
	restartAllRule(&pod.Spec.Containers[0], 42)
	for _, tc := range []struct {
		name string
		in   Input
		want string
	}{
		{"no trigger", Input{Observed: observe(running("c"))}, "False"},
		{"another code", Input{Observed: observe(exited("c", 0))}, "False PodCompleted"},
		{"failed", Input{Observed: observe(exited("c", 1))}, "False PodFailed"},
		{"trigger", Input{Observed: observe(exited("c", 42))}, "True RestartAllContainersStarted"},
		{"seen before", Input{Observed: observe(), Previous: was("c", "c-0", 0, wasTerminated(42, ""), v1.ContainerState{})}, "False"},
		{"going on", Input{Observed: observe(running("c")), Previous: withConditions(is(v1.AllContainersRestarting, v1.ConditionTrue))}, "True RestartAllContainersStarted"},
		{"all gone", Input{Observed: observe(), Previous: withConditions(is(v1.AllContainersRestarting, v1.ConditionTrue))}, "False"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.in.Pod = pod
			s := compute(t, tc.in)
			require.Equal(t, tc.want, cond(s, v1.AllContainersRestarting))
			require.Zero(t, podfacts.Condition(s.Conditions, v1.AllContainersRestarting).ObservedGeneration)
		})
	}
}

// A transition time moves only with the status, a generation with the pod.
func TestTransitionTimes(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "c")
	first := compute(t, Input{Pod: pod, Observed: observe(running("c")), Now: before})
	at := func(s v1.PodStatus, t v1.PodConditionType) time.Time {
		return podfacts.Condition(s.Conditions, t).LastTransitionTime.Time
	}
	require.Equal(t, before, at(first, v1.PodReady))
	require.Equal(t, before, first.StartTime.Time)
	pod.Generation = 2
	second := compute(t, Input{Pod: pod, Observed: observe(exited("c", 1)), Previous: &first, Now: now})
	require.Equal(t, now, at(second, v1.PodReady))
	require.Equal(t, now, at(second, v1.ContainersReady))
	require.Equal(t, before, at(second, v1.PodScheduled))
	require.Equal(t, before, second.StartTime.Time)
	require.Equal(t, int64(2), second.ObservedGeneration)
	require.Equal(t, int64(2), podfacts.Condition(second.Conditions, v1.PodScheduled).ObservedGeneration)
	third := compute(t, Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Observed: observe(exited("c", 1)), Previous: &second, Now: now})
	require.Equal(t, int64(2), third.ObservedGeneration, "T23: never back")
}

func TestForeignFieldsPass(t *testing.T) {
	for _, foreign := range []*v1.PodStatus{
		{},
		{ResourceClaimStatuses: []v1.PodResourceClaimStatus{{Name: "n", ResourceClaimName: new("claim")}}},
		{ExtendedResourceClaimStatus: &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "claim"}},
		{NodeAllocatableResourceClaimStatuses: []v1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: "claim"}}},
	} {
		s := compute(t, Input{Pod: podOf(v1.RestartPolicyAlways, "c"), API: foreign})
		require.Equal(t, foreign.ResourceClaimStatuses, s.ResourceClaimStatuses)
		require.Equal(t, foreign.ExtendedResourceClaimStatus, s.ExtendedResourceClaimStatus)
		require.Equal(t, foreign.NodeAllocatableResourceClaimStatuses, s.NodeAllocatableResourceClaimStatuses)
	}
}

// An eviction's status function: phase, reason and what follows from them.
func TestOverride(t *testing.T) {
	in := Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Observed: observe(running("c")), Previous: withConditions(is(v1.PodResizePending, v1.ConditionTrue))}
	in.Override = func(s *v1.PodStatus) {
		s.Phase, s.Reason, s.Message = v1.PodFailed, "Evicted", "low on memory"
		setCondition(s, 0, before, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "TerminationByKubelet"}, nil)
	}
	s := compute(t, in)
	require.Equal(t, [3]string{"Failed", "Evicted", "low on memory"}, [3]string{string(s.Phase), s.Reason, s.Message})
	require.Equal(t, "True TerminationByKubelet", cond(s, v1.DisruptionTarget))
	require.Equal(t, "False PodFailed", cond(s, v1.PodReady), "T19")
	require.Equal(t, "absent", cond(s, v1.PodResizePending))
	for name, api := range map[string]*v1.PodStatus{"before": nil, "by the API server": {Phase: v1.PodSucceeded}} {
		in.Previous, in.API = &v1.PodStatus{Phase: v1.PodRunning}, api
		if api == nil {
			in.Previous.Phase = v1.PodSucceeded
		}
		s = compute(t, in)
		require.Equal(t, [2]string{"Succeeded", ""}, [2]string{string(s.Phase), s.Reason}, "what has succeeded is not evicted: "+name)
		require.Equal(t, "absent", cond(s, v1.DisruptionTarget), name)
	}
}

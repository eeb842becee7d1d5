package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/podfacts"
	"github.com/podwright/podwright/status/internal/podstatus"
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
		want podstatus.Verdict
	}{
		{"nothing known", v1.PodStatus{}, withConditions(), podstatus.Verdict{Reason: "UnknownContainerStatuses"}},
		{"completed", v1.PodStatus{Phase: v1.PodSucceeded, InitContainerStatuses: []v1.ContainerStatus{initRuns, sidecarDown}}, withConditions(), podstatus.Verdict{OK: true, Reason: "PodCompleted"}},
		{"completed but one unknown", v1.PodStatus{Phase: v1.PodSucceeded, InitContainerStatuses: []v1.ContainerStatus{sidecarUp}}, withConditions(), podstatus.Verdict{Reason: "ContainersNotInitialized", Message: "containers with unknown status: [i]"}},
		{"a regular container runs", v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{initRuns, sidecarDown}, ContainerStatuses: []v1.ContainerStatus{{Name: "c", State: wasRunning()}}}, withConditions(), podstatus.Verdict{OK: true}},
		{"a regular container ended", v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "c", State: wasTerminated(1, "")}}}, withConditions(), podstatus.Verdict{OK: true}},
		{"init incomplete", v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{initRuns, sidecarUp}, ContainerStatuses: []v1.ContainerStatus{waits}}, withConditions(), podstatus.Verdict{Reason: "ContainersNotInitialized", Message: "containers with incomplete status: [i]"}},
		{"one unknown, one incomplete", v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{initRuns}}, withConditions(), podstatus.Verdict{Reason: "ContainersNotInitialized", Message: "containers with unknown status: [s], containers with incomplete status: [i]"}},
		{"sidecar incomplete", v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{initDone, sidecarDown}, ContainerStatuses: []v1.ContainerStatus{waits}}, withConditions(is(v1.PodInitialized, v1.ConditionFalse)), podstatus.Verdict{Reason: "ContainersNotInitialized", Message: "containers with incomplete status: [s]"}},
		{"was initialized before", v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{initRuns, sidecarDown}}, withConditions(is(v1.PodInitialized, v1.ConditionTrue)), podstatus.Verdict{OK: true}},
		{"all done", v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{initDone, sidecarUp}, ContainerStatuses: []v1.ContainerStatus{waits}}, withConditions(), podstatus.Verdict{OK: true}},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, podstatus.Initialized(pod, &tc.s, tc.old)) })
	}
	require.Equal(t, podstatus.Verdict{OK: true}, podstatus.Initialized(podOf(v1.RestartPolicyAlways, "c"), &v1.PodStatus{}, withConditions()))
	require.Equal(t, podstatus.Verdict{Reason: "UnknownContainerStatuses"}, podstatus.Initialized(podOf(v1.RestartPolicyAlways, "i:i", "c"), &v1.PodStatus{}, withConditions()))
}

// T18: the truth table of ContainersReady.
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
		want podstatus.Verdict
	}{
		{"nothing known", v1.PodStatus{}, podstatus.Verdict{Reason: "UnknownContainerStatuses"}},
		{"completed", phase(v1.PodSucceeded, both(false, false)), podstatus.Verdict{Reason: "PodCompleted"}},
		{"completed but one unknown", phase(v1.PodSucceeded, v1.PodStatus{ContainerStatuses: both(false, false).ContainerStatuses}), podstatus.Verdict{Reason: "ContainersNotReady", Message: "containers with unknown status: [s], containers with unready status: [c]"}},
		{"T19 failed", phase(v1.PodFailed, both(true, true)), podstatus.Verdict{Reason: "PodFailed"}},
		{"T18 sidecar unready", both(false, true), podstatus.Verdict{Reason: "ContainersNotReady", Message: "containers with unready status: [s]"}},
		{"two unready", both(false, false), podstatus.Verdict{Reason: "ContainersNotReady", Message: "containers with unready status: [s c]"}},
		{"one unknown", v1.PodStatus{InitContainerStatuses: both(true, true).InitContainerStatuses}, podstatus.Verdict{Reason: "ContainersNotReady", Message: "containers with unknown status: [c]"}},
		{"T18 plain init never counts", both(true, true), podstatus.Verdict{OK: true}},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, podstatus.ContainersReady(pod, &tc.s)) })
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
		{"in progress", Input{Observed: observe(running("c")), Previous: withConditions(is(v1.AllContainersRestarting, v1.ConditionTrue))}, "True RestartAllContainersStarted"},
		{"all removed", Input{Observed: observe(), Previous: withConditions(is(v1.AllContainersRestarting, v1.ConditionTrue))}, "False"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.in.Pod = pod
			s := compute(t, tc.in)
			require.Equal(t, tc.want, cond(s, v1.AllContainersRestarting))
			require.Zero(t, podfacts.Condition(s.Conditions, v1.AllContainersRestarting).ObservedGeneration)
		})
	}
}

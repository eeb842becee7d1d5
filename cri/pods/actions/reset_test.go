package actions

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/pleg/observed"
)

var all42 = onExit(v1.ContainerRestartRuleActionRestartAllContainers, 42)

func resetPod(triggers ...string) *v1.Pod {
	pod := testPod(always, "i0", "s1", "i2", "a", "b", "c", "e")
	for _, name := range triggers {
		own(name, v1.ContainerRestartPolicyNever, all42)(pod)
	}
	return pod
}

// C19: victims first, what triggered it last, all instances, and nothing else.
func TestReset(t *testing.T) {
	full := list(running("e"), running("c"), created("b"), exited("b", 42, id("b1")), running("a"), exited("a", 1), exited("i2", 0), running("s1"), exited("i0", 42))
	for _, tc := range []struct {
		name   string
		pod    *v1.Pod
		status *observed.Pod
		want   []string
	}{
		{"regular trigger", resetPod("a"), observedPod(ready(), running("c"), running("b"), exited("a", 42), exited("a", 0, id("a-1")), exited("i2", 0), running("s1"), exited("i0", 0)), []string{"b-running", "c-running", "i0-exited", "s1-running", "i2-exited", "a-1", "a-exited"}},
		{"regular and init trigger", resetPod("a", "i2"), observedPod(ready(), running("b"), exited("a", 42), exited("i2", 42), exited("i2", 1, id("i2-1")), running("s1"), exited("i0", 0)), []string{"b-running", "i0-exited", "s1-running", "a-exited", "i2-1", "i2-exited"}},
		{"begun: condition only", resetPod("b"), observedPod(ready(), full...), []string{"a-exited", "a-running", "b1", "b-created", "c-running", "i0-exited", "s1-running", "i2-exited"}},
		{"the rest after a crash", resetPod("a"), observedPod(ready(), exited("a", 42)), []string{"a-exited"}},
		{"a dead sandbox can wait", resetPod("a"), observedPod(dead(), exited("a", 42), running("b")), []string{"b-running", "a-exited"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := decide(t, Input{Pod: tc.pod, Status: tc.status, RestartAll: true})
			require.Equal(t, tc.want, ids(a.Reset))
			change := tc.status.SandboxChanged(false)
			require.Equal(t, Actions{SandboxID: change.ID, Attempt: change.Attempt, Reset: a.Reset, Explanation: "all containers are restarted"}, a)
		})
	}
}

// C19: after the reset the pod starts from the beginning, though it is still said
// to restart.
func TestAfterReset(t *testing.T) {
	a := decide(t, Input{Pod: resetPod("a"), Status: observedPod(ready(), exited("e", 0)), RestartAll: true})
	require.Equal(t, summary{init: []int{0}}, summarise(t, a))
	a = decide(t, Input{Pod: with(resetPod("a"), deleted), Status: observedPod(ready(), exited("a", 42), running("b")), RestartAll: true})
	require.Empty(t, a.Reset, "a pod on its way out restarts nothing")
}

func TestRestartAllTriggered(t *testing.T) {
	published := func(name string, code int32) *v1.PodStatus {
		return &v1.PodStatus{
			InitContainerStatuses: []v1.ContainerStatus{{Name: "i0"}},
			ContainerStatuses:     []v1.ContainerStatus{{Name: name, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}}},
		}
	}
	condition := func(s v1.ConditionStatus) *v1.PodStatus {
		return &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}, {Type: v1.AllContainersRestarting, Status: s}}}
	}
	for _, tc := range []struct {
		name      string
		pod       *v1.Pod
		observed  *observed.Pod
		published *v1.PodStatus
		want      bool
	}{
		{"nothing", resetPod("a"), observedPod(ready()), nil, false},
		{"exit of a regular one", resetPod("a"), observedPod(ready(), exited("a", 42)), nil, true},
		{"exit of an init container", resetPod("i0"), observedPod(ready(), exited("i0", 42)), nil, true},
		{"another code", resetPod("a"), observedPod(ready(), exited("a", 1)), nil, false},
		{"another container", resetPod("a"), observedPod(ready(), exited("b", 42)), nil, false},
		{"it runs again", resetPod("a"), observedPod(ready(), running("a"), exited("a", 42)), nil, false},
		{"no exit code yet", with(resetPod(), own("a", v1.ContainerRestartPolicyNever, onExit(v1.ContainerRestartRuleActionRestartAllContainers, 0))), observedPod(ready(), running("a")), nil, false},
		{"an earlier rule wins", with(resetPod(), own("a", v1.ContainerRestartPolicyNever, onExit(v1.ContainerRestartRuleActionRestart, 42), all42)), observedPod(ready(), exited("a", 42)), nil, false},
		{"published, and lost by the runtime", resetPod("a"), observedPod(ready()), published("a", 42), true},
		{"published, and runs again", resetPod("a"), observedPod(ready(), running("a")), published("a", 42), false},
		{"published, another code", resetPod("a"), observedPod(ready()), published("a", 1), false},
		{"published of another", resetPod("a"), observedPod(ready()), published("b", 42), false},
		{"begun", resetPod("a"), observedPod(ready(), running("b")), condition(v1.ConditionTrue), true},
		{"not begun", resetPod("a"), observedPod(ready(), running("b")), condition(v1.ConditionFalse), false},
		{"begun, but no rule says so", resetPod(), observedPod(ready()), condition(v1.ConditionTrue), false},
		{"deleted", with(resetPod("a"), deleted), observedPod(ready(), exited("a", 42)), nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, RestartAllTriggered(tc.pod, tc.observed, tc.published))
		})
	}
}

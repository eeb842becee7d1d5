package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/probe"
)

// Every cell of the table of counting.
func TestCount(t *testing.T) {
	on, off := true, false
	status := func(state, last v1.ContainerState, started *bool) []v1.ContainerStatus {
		return []v1.ContainerStatus{{Name: "c", State: state, LastTerminationState: last, Started: started}}
	}
	none := v1.ContainerState{}
	waits := wasWaiting("x")
	for _, tc := range []struct {
		name string
		kind string
		in   []v1.ContainerStatus
		want tally
	}{
		{"init, no status", "i:c", nil, tally{pendingInit: 1}},
		{"init, running", "i:c", status(wasRunning(), none, nil), tally{pendingInit: 1}},
		{"init, exit 0", "i:c", status(wasTerminated(0, ""), none, nil), tally{}},
		{"init, exit 1", "i:c", status(wasTerminated(1, ""), none, nil), tally{failedForGood: 1}},
		{"init, exit 1 in restart of all", "i:c", status(wasTerminated(1, ReasonRestartingAllContainers), none, nil), tally{}},
		{"init, waiting after exit 1", "i:c", status(waits, wasTerminated(1, ""), nil), tally{failedForGood: 1}},
		{"init, waiting after exit 0", "i:c", status(waits, wasTerminated(0, ""), nil), tally{}},
		{"init, waiting", "i:c", status(waits, none, nil), tally{pendingInit: 1}},
		{"init, empty", "i:c", status(none, none, nil), tally{pendingInit: 1}},
		{"sidecar, no status", "s:c", nil, tally{unknown: 1}},
		{"sidecar, started", "s:c", status(wasRunning(), none, &on), tally{running: 1}},
		{"sidecar, not started", "s:c", status(wasRunning(), none, &off), tally{running: 1, pendingSidecar: 1}},
		{"sidecar, running", "s:c", status(wasRunning(), none, nil), tally{running: 1, pendingSidecar: 1}},
		{"sidecar, exit 1", "s:c", status(wasTerminated(1, ""), none, nil), tally{}},
		{"sidecar, waiting after exit", "s:c", status(waits, wasTerminated(1, ""), nil), tally{}},
		{"sidecar, waiting", "s:c", status(waits, none, nil), tally{pendingSidecar: 1, waiting: 1}},
		{"sidecar, empty", "s:c", status(none, none, nil), tally{pendingSidecar: 1, unknown: 1}},
		{"regular, no status", "c", nil, tally{unknown: 1}},
		{"regular, running", "c", status(wasRunning(), none, nil), tally{running: 1}},
		{"regular, exit 0", "c", status(wasTerminated(0, ""), none, nil), tally{stopped: 1, succeeded: 1, final: 1}},
		{"regular, exit 1", "c", status(wasTerminated(1, ""), none, nil), tally{stopped: 1, final: 1}},
		{"regular, exit 1 in restart of all", "c", status(wasTerminated(1, ReasonRestartingAllContainers), none, nil), tally{stopped: 1}},
		{"regular, waiting after exit", "c", status(waits, wasTerminated(0, ""), nil), tally{stopped: 1, final: 1}},
		{"regular, waiting", "c", status(waits, none, nil), tally{waiting: 1}},
		{"regular, empty", "c", status(none, none, nil), tally{unknown: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := podOf(v1.RestartPolicyNever, tc.kind)
			s := v1.PodStatus{ContainerStatuses: tc.in}
			if len(pod.Spec.InitContainers) > 0 {
				s = v1.PodStatus{InitContainerStatuses: tc.in}
			}
			require.Equal(t, tc.want, count(pod, &s))
		})
	}
	pod := podOf(v1.RestartPolicyAlways, "c")
	require.Equal(t, tally{stopped: 1}, count(pod, &v1.PodStatus{ContainerStatuses: status(wasTerminated(1, ""), none, nil)}))
	pod = podOf(v1.RestartPolicyOnFailure, "i:c")
	require.Equal(t, tally{}, count(pod, &v1.PodStatus{InitContainerStatuses: status(wasTerminated(1, ""), none, nil)}))
}

// Every row of the table of decisions.
func TestPhaseOfTally(t *testing.T) {
	for _, tc := range []struct {
		name                string
		in                  tally
		terminal, hasActive bool
		want                v1.PodPhase
	}{
		{"1 failed init", tally{failedForGood: 1, pendingInit: 1, running: 1}, false, true, v1.PodFailed},
		{"2 pending init", tally{pendingInit: 1, running: 1}, true, true, v1.PodPending},
		{"2 pending sidecar", tally{pendingSidecar: 1, running: 1}, false, false, v1.PodPending},
		{"2 pending sidecar of an active pod", tally{pendingSidecar: 1, running: 1}, false, true, v1.PodRunning},
		{"2 waiting", tally{waiting: 1, running: 1, stopped: 1}, true, true, v1.PodPending},
		{"3 running", tally{running: 1, stopped: 1}, true, true, v1.PodRunning},
		{"3 running beside unknown", tally{running: 1, unknown: 1}, false, true, v1.PodPending},
		{"4 succeeded", tally{stopped: 2, succeeded: 2}, true, false, v1.PodSucceeded},
		{"4 failed", tally{stopped: 2, succeeded: 1}, true, false, v1.PodFailed},
		{"5 restarting", tally{stopped: 2, succeeded: 1, final: 1}, false, false, v1.PodRunning},
		{"6 succeeded", tally{stopped: 2, succeeded: 2, final: 2}, false, false, v1.PodSucceeded},
		{"6 failed", tally{stopped: 2, succeeded: 1, final: 2}, false, false, v1.PodFailed},
		{"7 unknown", tally{stopped: 1, final: 1, unknown: 1}, true, true, v1.PodPending},
		{"7 nothing", tally{}, true, true, v1.PodPending},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, tc.in.phase(tc.terminal, tc.hasActive)) })
	}
}

// T2, T3, T5.
func TestPhaseOfExitedContainers(t *testing.T) {
	onFailure := podOf(v1.RestartPolicyNever, "a", "b")
	policy := v1.ContainerRestartPolicyOnFailure
	onFailure.Spec.Containers[0].RestartPolicy = &policy
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		a, b int32
		want v1.PodPhase
	}{
		{"T2 always", podOf(v1.RestartPolicyAlways, "a", "b"), 0, 0, v1.PodRunning},
		{"T2 never, all well", podOf(v1.RestartPolicyNever, "a", "b"), 0, 0, v1.PodSucceeded},
		{"T2 never, one failed", podOf(v1.RestartPolicyNever, "a", "b"), 0, 1, v1.PodFailed},
		{"T2 on failure, one failed", podOf(v1.RestartPolicyOnFailure, "a", "b"), 0, 1, v1.PodRunning},
		{"T2 on failure, all well", podOf(v1.RestartPolicyOnFailure, "a", "b"), 0, 0, v1.PodSucceeded},
		{"T3 container on failure, failed", onFailure, 1, 0, v1.PodRunning},
		{"T3 container on failure, well", onFailure, 0, 0, v1.PodSucceeded},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := compute(t, Input{Pod: tc.pod, Observed: observe(exited("a", tc.a), exited("b", tc.b))})
			require.Equal(t, tc.want, s.Phase)
		})
	}
}

// T4
func TestFailedInit(t *testing.T) {
	never := compute(t, Input{Pod: podOf(v1.RestartPolicyNever, "i:i", "c"), Observed: observe(exited("i", 1))})
	require.Equal(t, v1.PodFailed, never.Phase)
	always := compute(t, Input{
		Pod: podOf(v1.RestartPolicyAlways, "i:i", "c"), Observed: observe(exited("i", 1)),
		StartFailures: map[string]Reason{"i": {Reason: "CrashLoopBackOff"}},
	})
	require.Equal(t, v1.PodPending, always.Phase)
	require.Equal(t, "waiting CrashLoopBackOff", short(always.InitContainerStatuses[0].State))
	require.Equal(t, "exit 1", short(always.InitContainerStatuses[0].LastTerminationState))
}

// T5
func TestSidecarOutlivesMain(t *testing.T) {
	pod := podOf(v1.RestartPolicyNever, "s:s", "c")
	s := compute(t, Input{Pod: pod, Observed: observe(running("s"), exited("c", 0))})
	require.Equal(t, v1.PodRunning, s.Phase)
	s = compute(t, Input{Pod: pod, Observed: observe(exited("s", 137), exited("c", 0)), Previous: &s})
	require.Equal(t, v1.PodSucceeded, s.Phase)
}

// T6: what counts is a regular container in the current sandbox.
func TestRestartingSidecar(t *testing.T) {
	pod := podOf(v1.RestartPolicyAlways, "s:s", "c")
	pod.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
	in := Input{Pod: pod, Probes: probe.Results{}, Observed: observe(running("s", id("s-1"), attempt(1)), exited("s", 1), running("c"))}
	require.Equal(t, v1.PodRunning, compute(t, in).Phase)
	in.Observed = observe(running("s", id("s-1")), exited("c", 0, sandbox("old")))
	require.Equal(t, v1.PodPending, compute(t, in).Phase)
	in.Observed = observe(running("s", id("s-1")), running("c"))
	in.Observed.Sandboxes = nil
	require.Equal(t, v1.PodPending, compute(t, in).Phase, "without a sandbox none is the current one")
}

// T7
func TestTerminalPod(t *testing.T) {
	in := Input{Pod: deleted(podOf(v1.RestartPolicyAlways, "c")), Observed: observe(exited("c", 0)), Terminal: true}
	require.Equal(t, v1.PodSucceeded, compute(t, in).Phase)
	in.Pod = static(in.Pod)
	require.Equal(t, v1.PodRunning, compute(t, in).Phase)
}

// T8: an end that was reported stays.
func TestTerminalPhaseStays(t *testing.T) {
	failed := Input{Pod: podOf(v1.RestartPolicyNever, "c"), Observed: observe(exited("c", 1))}
	failed.API = &v1.PodStatus{Phase: v1.PodSucceeded}
	require.Equal(t, v1.PodSucceeded, compute(t, failed).Phase)
	failed.API, failed.Previous = nil, &v1.PodStatus{Phase: v1.PodSucceeded}
	require.Equal(t, v1.PodSucceeded, compute(t, failed).Phase)
	failed.Fail = &Reason{Reason: ReasonDeadlineExceeded}
	require.Equal(t, v1.PodSucceeded, compute(t, failed).Phase)
	failed.API = &v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted"}
	s := compute(t, failed)
	require.Equal(t, v1.PodFailed, s.Phase, "the API server's word counts first")
	require.Equal(t, "Evicted", s.Reason)

	running := Input{Pod: podOf(v1.RestartPolicyNever, "c"), Observed: observe(running("c")), Previous: &v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "m"}}
	s = compute(t, running)
	require.Equal(t, []string{"Failed", "Evicted", "m"}, []string{string(s.Phase), s.Reason, s.Message})
}

// A pod that was not looked at is in the phase that it was in, whatever its statuses say.
func TestPhaseOfAPodThatWasNotObserved(t *testing.T) {
	in := Input{Now: now, Pod: podOf(v1.RestartPolicyAlways, "c"), Previous: &v1.PodStatus{Phase: v1.PodRunning}}
	require.Equal(t, v1.PodRunning, twice(t, in).Status.Phase)
	in.Previous.Phase = ""
	require.Equal(t, v1.PodPending, twice(t, in).Status.Phase)
}

func TestReasonOfThePod(t *testing.T) {
	in := Input{Pod: podOf(v1.RestartPolicyAlways, "c"), Observed: observe(running("c"))}
	in.Previous = &v1.PodStatus{Phase: v1.PodRunning, Reason: "r"}
	in.API = &v1.PodStatus{Phase: v1.PodRunning, Reason: "api", Message: "m"}
	s := compute(t, in)
	require.Equal(t, [2]string{"r", "m"}, [2]string{s.Reason, s.Message}, "what is empty comes from the API")
	in.Previous, in.API = &v1.PodStatus{Phase: v1.PodPending, Reason: "r"}, nil
	s = compute(t, in)
	require.Empty(t, s.Reason, "another phase, another reason")
	in.Fail = &Reason{Reason: ReasonDeadlineExceeded, Message: "too late"}
	s = compute(t, in)
	require.Equal(t, [3]string{"Failed", ReasonDeadlineExceeded, "too late"}, [3]string{string(s.Phase), s.Reason, s.Message})
	require.Equal(t, "False PodFailed", cond(s, v1.PodReady))
}

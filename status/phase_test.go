package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
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

package status

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// Every row of the decision table.
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

package writer

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// Only what had not ended before and has now is newly ended, whatever else is there.
func TestNewlyTerminated(t *testing.T) {
	ended := func(reason string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: reason}}
	}
	list := func(a, b v1.ContainerState) []v1.ContainerStatus {
		return []v1.ContainerStatus{{Name: "a", State: a}, {Name: "b", State: b}}
	}
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	before := &v1.PodStatus{
		InitContainerStatuses:      list(ended("before"), runs),
		ContainerStatuses:          list(runs, runs),
		EphemeralContainerStatuses: list(runs, v1.ContainerState{})[:1],
	}
	s := &v1.PodStatus{
		InitContainerStatuses:      list(ended("before"), ended("init")),
		ContainerStatuses:          list(ended("app"), runs),
		EphemeralContainerStatuses: list(runs, ended("ephemeral")),
	}
	var got []string
	for _, c := range newlyTerminated(before, s) {
		got = append(got, c.kind+" "+c.state.Reason)
	}
	require.Equal(t, []string{"init_containers init", "containers app", "ephemeral_containers ephemeral"}, got)
}
